from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ScheduleCoefficients:
    sqrt_alphas_cumprod: Tensor
    sqrt_one_minus_alphas_cumprod: Tensor

    @staticmethod
    def from_betas(betas: Tensor) -> "ScheduleCoefficients":
        alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        return ScheduleCoefficients(alphas_cumprod.sqrt(), (1.0 - alphas_cumprod).sqrt())

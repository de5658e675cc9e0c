"""Backward, gradients, optimizers and gradient scaling."""

import torch

ONE, TWO, HOST = "cuda:0", "cuda:1", "cpu"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)


class WrongDevice(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values * 2

    @staticmethod
    def backward(context, gradient):
        return gradient.to(TWO)


def stepped(make, **options):
    parameter = torch.nn.Parameter(torch.ones(2, device=options.pop("on", ONE)))
    parameter.grad = torch.ones_like(parameter)
    optimizer = make([parameter], **options)
    optimizer.step()
    return parameter, optimizer


def fused_adam(**extra):
    def one():
        return [ones(2)]

    arguments = dict(lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False, grad_scale=None, found_inf=None)
    return torch._fused_adam_(one(), one(), one(), one(), [], [ones(())], **{**arguments, **extra})

# === assigned_gradient_of_the_host
# message: torch-attempting-to-assign-a-gradient-with-device
# operation: torch.Tensor.grad on cuda:0, cpu
def assigned_gradient_of_the_host():
    ones(2, requires_grad=True).grad = torch.ones(2)

# === assigned_gradient_of_another_device
# message: torch-attempting-to-assign-a-gradient-located-on
# operation: torch.Tensor.grad on cuda:0, cuda:1
# cut: yes
def assigned_gradient_of_another_device():
    ones(2, requires_grad=True, device=TWO).grad = ones(2)

# === gradient_of_a_custom_function
# message: torch-invalid-gradient-at-index-expected-device-but
# operation: torch.Tensor.backward|WrongDeviceBackward|torch.autograd.backward on cuda:0, cuda:1
def gradient_of_a_custom_function():
    return WrongDevice.apply(ones(2, requires_grad=True)).sum().backward()

# === gradient_given_to_backward
# message: torch-invalid-gradient-at-index-expected-device-but
# operation: torch.Tensor.backward|torch.autograd.backward on cuda:0, cuda:1
def gradient_given_to_backward():
    return (ones(2, requires_grad=True) * 2).backward(ones(2, device=TWO))

# === parameters_to_vector
# message: torch-found-two-parameters-on-different-devices-this-is
# operation: torch.nn.utils.parameters_to_vector|parameters_to_vector on cuda:0, cuda:1
def parameters_to_vector():
    return torch.nn.utils.parameters_to_vector([torch.nn.Parameter(ones(2)), torch.nn.Parameter(ones(2, device=TWO))])

# === vector_to_parameters
# message: torch-found-two-parameters-on-different-devices-this-is
# operation: torch.nn.utils.vector_to_parameters|vector_to_parameters on cuda:0, cuda:1
def vector_to_parameters():
    return torch.nn.utils.vector_to_parameters(ones(4), [torch.nn.Parameter(ones(2)), torch.nn.Parameter(ones(2, device=TWO))])

# === capturable_adam_on_the_host
# message: torch-if-capturable-true-params-and-state_steps-must
# operation: torch.optim.Adam.step|Adam.step|torch.optim.Adam|adam|step on cpu
def capturable_adam_on_the_host():
    return stepped(torch.optim.Adam, on=HOST, capturable=True, foreach=False)

# === capturable_foreach_adam_on_the_host
# message: torch-if-capturable-true-params-and-state_steps-must
# operation: torch.optim.Adam.step|torch.optim.Adam|step on cpu
def capturable_foreach_adam_on_the_host():
    return stepped(torch.optim.Adam, on=HOST, capturable=True, foreach=True)

# === capturable_nadam_on_the_host
# message: torch-if-capturable-true-params-mu_products-and-state_steps
# operation: torch.optim.NAdam.step|torch.optim.NAdam|step on cpu
def capturable_nadam_on_the_host():
    return stepped(torch.optim.NAdam, on=HOST, capturable=True, foreach=False)

# === capturable_foreach_nadam_on_the_host
# message: torch-if-capturable-true-params-mu_products-and-state_steps-must
# operation: torch.optim.NAdam.step|torch.optim.NAdam|step on cpu
def capturable_foreach_nadam_on_the_host():
    return stepped(torch.optim.NAdam, on=HOST, capturable=True, foreach=True)

# === capturable_asgd_on_the_host
# message: torch-if-capturable-true-params-mus-etas-and
# operation: torch.optim.ASGD.step|torch.optim.ASGD|step on cpu
def capturable_asgd_on_the_host():
    return stepped(torch.optim.ASGD, on=HOST, capturable=True, foreach=False)

# === capturable_foreach_asgd_on_the_host
# message: torch-if-capturable-true-params-mus-etas-and
# operation: torch.optim.ASGD.step|torch.optim.ASGD|step on cpu
def capturable_foreach_asgd_on_the_host():
    return stepped(torch.optim.ASGD, on=HOST, capturable=True, foreach=True)

# === fused_adam_grad_scale
# message: torch-grad_scale-must-be-on-the-same-gpu
# operation: aten::_fused_adam_ on cuda:0, cuda:1
def fused_adam_grad_scale():
    return fused_adam(lr=ones(()), grad_scale=ones((), device=TWO), found_inf=ones(()))

# === fused_adam_found_inf
# message: torch-found_inf-must-be-on-the-same-gpu
# operation: aten::_fused_adam_ on cuda:0, cuda:1
def fused_adam_found_inf():
    return fused_adam(lr=ones(()), grad_scale=ones(()), found_inf=ones((), device=TWO))

# === fused_adam_tensor_learning_rate
# message: torch-lr-must-be-on-the-same-gpu
# operation: aten::_fused_adam_ on cuda:0, cuda:1
def fused_adam_tensor_learning_rate():
    return fused_adam(lr=ones((), device=TWO))

# === unscale_inverse_scale_of_the_host
# operation: aten::_amp_foreach_non_finite_check_and_unscale_ on cuda:0, cpu
def unscale_inverse_scale_of_the_host():
    return torch._amp_foreach_non_finite_check_and_unscale_([ones(2)], ones(()), torch.tensor(1.0))

# === unscale_found_inf_of_the_host
# operation: aten::_amp_foreach_non_finite_check_and_unscale_ on cuda:0, cpu
def unscale_found_inf_of_the_host():
    return torch._amp_foreach_non_finite_check_and_unscale_([ones(2)], torch.tensor(0.0), ones(()))

# === unscale_gradients_of_two_devices
# operation: aten::_amp_foreach_non_finite_check_and_unscale_ on cuda:0, cuda:1
def unscale_gradients_of_two_devices():
    return torch._amp_foreach_non_finite_check_and_unscale_([ones(2), ones(2, device=TWO)], ones(()), ones(()))

# === unscale_gradients_of_the_host
# operation: aten::_amp_foreach_non_finite_check_and_unscale_ on cuda:0, cpu
def unscale_gradients_of_the_host():
    return torch._amp_foreach_non_finite_check_and_unscale_([ones(2), torch.ones(2)], ones(()), ones(()))

# === unscale_of_the_host_found_inf_of_a_device
# operation: aten::_amp_foreach_non_finite_check_and_unscale_ on cuda:0, cpu
def unscale_of_the_host_found_inf_of_a_device():
    return torch._amp_foreach_non_finite_check_and_unscale_([torch.ones(2)], ones(()), torch.tensor(1.0))

# === unscale_of_the_host_inverse_scale_of_a_device
# operation: aten::_amp_foreach_non_finite_check_and_unscale_ on cuda:0, cpu
def unscale_of_the_host_inverse_scale_of_a_device():
    return torch._amp_foreach_non_finite_check_and_unscale_([torch.ones(2)], torch.tensor(0.0), ones(()))

# === update_scale_tracker_of_the_host
# operation: aten::_amp_update_scale_ on cuda:0, cpu
def update_scale_tracker_of_the_host():
    return torch._amp_update_scale_(ones(()), torch.tensor(0, dtype=torch.int32), ones(()), 2.0, 0.5, 1)

# === update_scale_found_inf_of_the_host
# operation: aten::_amp_update_scale_ on cuda:0, cpu
def update_scale_found_inf_of_the_host():
    return torch._amp_update_scale_(ones(()), torch.tensor(0, dtype=torch.int32, device=ONE), torch.tensor(0.0), 2.0, 0.5, 1)

# === update_scale_of_the_host_tracker_of_a_device
# operation: aten::_amp_update_scale_ on cuda:0, cpu
def update_scale_of_the_host_tracker_of_a_device():
    return torch._amp_update_scale_(torch.tensor(1.0), torch.tensor(0, dtype=torch.int32, device=ONE), torch.tensor(0.0), 2.0, 0.5, 1)

# === update_scale_of_the_host_found_inf_of_a_device
# operation: aten::_amp_update_scale_ on cuda:0, cpu
def update_scale_of_the_host_found_inf_of_a_device():
    return torch._amp_update_scale_(torch.tensor(1.0), torch.tensor(0, dtype=torch.int32), ones(()), 2.0, 0.5, 1)

# === new_scale_of_the_host
# message: torch-new_scale-should-be-a-float-or-a-element
# operation: torch.amp.GradScaler.update|GradScaler.update on cpu
def new_scale_of_the_host():
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(ones(1))
    scaler.update(torch.tensor(1.0))

# === gradcheck_of_a_wrong_device
# message: torch-invalid-gradient-at-index-expected-device-but
# operation: torch.autograd.gradcheck|gradcheck|WrongDeviceBackward on cuda:0, cuda:1
def gradcheck_of_a_wrong_device():
    values = torch.ones(2, device=ONE, dtype=torch.float64, requires_grad=True)
    return torch.autograd.gradcheck(WrongDevice.apply, (values,))

# === parametrization_that_moves
# message: torch-when-right_inverse-outputs-one-tensor-it-may
# operation: torch.nn.utils.parametrize.register_parametrization|register_parametrization on cuda:0, cuda:1
def parametrization_that_moves():
    class Moves(torch.nn.Module):
        def forward(self, values):
            return values

        def right_inverse(self, values):
            return values.to(TWO)

    layer = torch.nn.Linear(2, 2, device=ONE)
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", Moves())

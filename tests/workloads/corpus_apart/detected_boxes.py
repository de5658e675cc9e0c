# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["boxes","scale_fct"],"category":"created without device|input not moved","line":["target_sizes = torch.tensor(","boxes = boxes * scale_fct","scale_fct = torch.stack(","results = processor.post_process_object_detection("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/pull/21974"}
# FIX boxes = boxes * scale_fct[:, None, :] -> boxes = boxes * scale_fct.to(boxes.device)[:, None, :]
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class DetectionOutput:
    logits: torch.Tensor
    pred_boxes: torch.Tensor


class Detector(nn.Module):
    def __init__(self, n_queries=5, n_labels=3, width=16):
        super().__init__()
        self.backbone = nn.Conv2d(3, width, 4, stride=4)
        self.queries = nn.Parameter(torch.randn(n_queries, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.labels = nn.Linear(width, n_labels + 1)
        self.boxes = nn.Linear(width, 4)

    def forward(self, pixel_values):
        memory = self.backbone(pixel_values).flatten(2).transpose(1, 2)
        queries = self.queries.expand(len(memory), -1, -1)
        hidden, _ = self.attention(queries, memory, memory)
        return DetectionOutput(self.labels(hidden), self.boxes(hidden).sigmoid())


def center_to_corners_format(x):
    center, size = x.chunk(2, dim=-1)
    return torch.cat([center - 0.5 * size, center + 0.5 * size], dim=-1)


class ImageProcessor:
    def __call__(self, images):
        return {"pixel_values": torch.stack([nn.functional.interpolate(image[None], (16, 16))[0] for image in images])}

    def post_process_object_detection(self, outputs, threshold=0.5, target_sizes=None):
        prob = outputs.logits.softmax(-1)
        scores, labels = prob[..., :-1].max(-1)
        boxes = center_to_corners_format(outputs.pred_boxes)
        if target_sizes is not None:
            height, width = target_sizes.unbind(1)
            scale_fct = torch.stack([width, height, width, height], dim=1)
            boxes = boxes * scale_fct[:, None, :]
        kept = [score > threshold for score in scores]
        found = zip(kept, scores, labels, boxes)
        return [{"scores": score[k], "labels": label[k], "boxes": box[k]} for k, score, label, box in found]


torch.manual_seed(21974)
images = [torch.rand(3, 24, 32), torch.rand(3, 40, 20)]
processor = ImageProcessor()
model = Detector().to("cuda").eval()
inputs = {name: value.to("cuda") for name, value in processor(images).items()}
with torch.no_grad():
    outputs = model(**inputs)
target_sizes = torch.tensor([image.shape[-2:] for image in images])
results = processor.post_process_object_detection(outputs, threshold=0.2, target_sizes=target_sizes)
print([(len(each["scores"]), round(each["boxes"].sum().item(), 1)) for each in results])

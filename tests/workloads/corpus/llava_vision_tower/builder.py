import zlib

import torch

from llava import IMAGE_TOKEN, Llava, VisionTower


class ImageProcessor:
    def __init__(self, size=8):
        self.size = size

    def __call__(self, image):
        pixels = torch.from_numpy(image[: self.size, : self.size]).permute(2, 0, 1).float() / 255
        return {"pixel_values": ((pixels - 0.5) / 0.25).unsqueeze(0)}


def tokenizer(text):
    return torch.tensor([[IMAGE_TOKEN if word == "<image>" else zlib.crc32(word.encode()) % 30 for word in text.split()]])


def load_pretrained_model(model_path, device="cuda"):
    """The language model, and the vision tower that its configuration names."""
    model = Llava(vocabulary=32, width=8).eval()
    model.to(device)

    vision_tower = VisionTower(width=8).eval()
    model.vision_tower = vision_tower
    vision_tower.to(device="cuda")
    return tokenizer, model, ImageProcessor(vision_tower.image_size)

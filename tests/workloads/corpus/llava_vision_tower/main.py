# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:1","cuda:0"],"operands":["images|pixel_values|input","patch_embedding.weight|weight"],"category":"default or current device|module split","line":["builder.py: vision_tower.to(device=\"cuda\")","main.py: tokenizer, model, image_processor = load_pretrained_model(","llava.py: features = self.vision_tower("],"error":"on the same device","thread":"https://github.com/haotian-liu/LLaVA/issues/1516","hard":"the loader takes a device and puts one of two models on another; which one is wrong is seen only there"}
# FIX builder.py: vision_tower.to(device="cuda") -> vision_tower.to(device=device)
import argparse

import numpy as np
import torch

from builder import load_pretrained_model


def main(args):
    torch.manual_seed(0)
    tokenizer, model, image_processor = load_pretrained_model(args.model_path, device=args.device)
    picture = np.arange(3 * 12 * 12, dtype=np.uint8).reshape(12, 12, 3)
    image_tensor = image_processor(picture)["pixel_values"].to(model.device)
    input_ids = tokenizer("what is shown here <image>").to(model.device)
    with torch.inference_mode():
        logits = model(input_ids, images=image_tensor)
    print("next token", int(logits[0, -1].argmax()), round(logits.abs().mean().item(), 3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", default="llava-tiny")
    parser.add_argument("--device", default="cuda:1")
    main(parser.parse_args())

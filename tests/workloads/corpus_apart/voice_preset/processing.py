import torch


class BatchFeature(dict):
    """What a feature extractor returns."""

    def to(self, device):
        return BatchFeature({name: value.to(device) for name, value in self.items()})


class BatchEncoding:
    """What a tokenizer returns."""

    def __init__(self, data):
        self.data = data

    def keys(self):
        return self.data.keys()

    def __getitem__(self, name):
        return self.data[name]

    def __setitem__(self, name, value):
        self.data[name] = value

    def to(self, device):
        self.data = {
            key: value.to(device) if isinstance(value, torch.Tensor) else value
            for key, value in self.data.items()
        }
        return self


class BarkProcessor:
    def __init__(self, speaker_embeddings):
        self.speaker_embeddings = speaker_embeddings

    def tokenize(self, text):
        ids = torch.tensor([[12 + len(word) for word in text.split()]])
        return BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})

    def __call__(self, text, voice_preset=None):
        encoded = self.tokenize(text)
        if voice_preset is not None:
            encoded["history_prompt"] = BatchFeature(self.speaker_embeddings[voice_preset])
        return encoded

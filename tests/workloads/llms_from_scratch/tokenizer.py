"""Bytes as tokens, with the two methods of a tiktoken encoding that the book's functions call: its vocabularies come from a network."""


class ByteTokenizer:
    vocabulary = 257
    end_of_text = 256

    def encode(self, text: str, allowed_special=frozenset()) -> list[int]:
        parts = text.split("<|endoftext|>") if "<|endoftext|>" in allowed_special else [text]
        tokens = list(parts[0].encode())
        for part in parts[1:]:
            tokens += [self.end_of_text, *part.encode()]
        return tokens

    def decode(self, tokens: list[int]) -> str:
        return bytes(token for token in tokens if token < 256).decode(errors="replace")

import torch
import torch.nn as nn

import settings


class LanguageModel(nn.Module):
    def __init__(self, characters: str, hidden_size: int):
        super().__init__()
        self.characters = characters
        self.hidden_size = hidden_size
        self.encoder = nn.Embedding(len(characters), 8)
        self.rnn = nn.LSTM(8, hidden_size)
        self.decoder = nn.Linear(hidden_size, len(characters))

    def init_hidden(self, batch):
        weight = next(self.parameters()).detach()
        return tuple(weight.new_zeros(1, batch, self.hidden_size) for _ in range(2))

    def forward(self, token, hidden):
        output, hidden = self.rnn(self.encoder(token), hidden)
        return self.decoder(output), hidden

    def generate_text(self, prefix: str, number_of_characters: int) -> str:
        """Goes on from the prefix, always with the likeliest character."""
        text = prefix
        with torch.no_grad():
            hidden = self.init_hidden(1)
            for char in prefix[:-1]:
                token = torch.tensor([[self.characters.index(char)]]).to(settings.device)
                _, hidden = self.forward(token, hidden)
            token = torch.tensor([[self.characters.index(prefix[-1])]])
            for _ in range(number_of_characters):
                if torch.cuda.is_available():
                    token = token.cuda()
                prediction, hidden = self.forward(token, hidden)
                token = prediction.argmax(dim=-1)
                text += self.characters[token.item()]
        return text

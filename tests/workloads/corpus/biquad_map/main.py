# EXPECT {"kind":"refused-op","operation":"clamp","devices":["cuda:0","cpu"],"operands":["min|lowest","x|param"],"category":"created without device|cached state|state not registered","line":["dsp.py: lowest = torch.tensor(","main.py: core = Biquad("],"error":"on the same device","thread":"https://github.com/gdalsanto/flamo/pull/30","hard":"a closure made in the constructor asks the module's own device attribute when it is called, after .to()"}
# FIX dsp.py: lowest = torch.tensor([0.0, 0.0, -60.0], device=self.device) -> lowest = torch.tensor([0.0, 0.0, -60.0], device=x.device)
# FIX dsp.py: highest = torch.tensor([self.fs / 2, 10.0, 60.0], device=self.device) -> highest = torch.tensor([self.fs / 2, 10.0, 60.0], device=x.device)
import torch

from dsp import Biquad


class Shell(torch.nn.Module):
    """What goes in and out are signals in time; the core works on their spectrum."""

    def __init__(self, core, nfft):
        super().__init__()
        self.core = core
        self.nfft = nfft

    def forward(self, signal):
        spectrum = torch.fft.rfft(signal, self.nfft)
        return torch.fft.irfft(self.core(spectrum), self.nfft)


nfft, fs = 32, 8000
core = Biquad(n_sections=2, nfft=nfft, fs=fs)
model = Shell(core, nfft).to("cuda")
impulse = torch.zeros(1, nfft).to("cuda")
impulse[:, 0] = 1.0
with torch.no_grad():
    response = model(impulse)
print("response", [round(value, 4) for value in response[0, :4].tolist()])

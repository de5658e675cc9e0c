# EXPECT {"kind":"refused-op","operation":"convolution|conv|addmm|mm|linear","devices":["cpu","cuda:0"],"operands":["weight|bias","images|input|batch|x"],"category":"module split","line":["classifier.py: classifier.model.load_state_dict(","classifier.py: logits = self.model(","classifier.py: images = images.to(self.device)"],"error":"same device|Input type","thread":"https://github.com/DashAISoftware/dashAI/pull/679","hard":"training had moved it; what is loaded was never moved"}
# FIX classifier.py: logits = self.model(images) -> logits = self.model.to(self.device)(images)
import torch

from classifier import ImageClassifier

torch.manual_seed(0)
images, labels = torch.rand(6, 1, 8, 8), torch.tensor([0, 1, 0, 1, 0, 1])
trained = ImageClassifier(2)
trained.train(images, labels, epochs=2)
trained.save("classifier.pt")
print("classes", [len(row) for row in ImageClassifier.load("classifier.pt").predict(images)])

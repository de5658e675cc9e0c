# EXPECT {"kind":"refused-op","operation":"addmm|linear|mm","devices":["cpu","cuda:0"],"operands":["observations|observation|input|x","weight|bias"],"category":"created without device|default or current device|input not moved","line":["trainer.py: self.env = SimEnv(","env.py: def __init__(","trainer.py: observations = self.env.reset()"],"error":"on the same device","thread":"https://github.com/strands-labs/robots/pull/877","hard":"the environment makes everything on its own device, and nobody has told it another one than its default"}
# FIX trainer.py: self.env = SimEnv(self.config.n_envs, seed=self.config.seed) -> self.env = SimEnv(self.config.n_envs, seed=self.config.seed, device=self.device)
from trainer import PpoConfig, PpoTrainer

trainer = PpoTrainer(PpoConfig(n_envs=6, horizon=12, updates=3))
trainer.setup()
reward = trainer.train()
print("mean reward", round(reward, 4))

# EXPECT {"kind":"refused-op","operation":"addmm|linear|mm","devices":["cpu","cuda:0"],"operands":["observations|obs|next_observations|input|x","weight|bias"],"category":"cached state|default or current device|input not moved","line":["algorithm.py: self.replay_buffer = pickle.loads(","buffers.py: return torch.as_tensor(","main.py: model.load_replay_buffer("],"error":"on the same device","thread":"https://github.com/DLR-RM/stable-baselines3/issues/1561","hard":"what was pickled holds no tensor: it holds the name of the device that it makes them on"}
# FIX algorithm.py: self.replay_buffer = pickle.loads(file.read()) -> self.replay_buffer = pickle.loads(file.read()); self.replay_buffer.device = self.device
import io

from algorithm import DQN, Corridor


def train_on_the_server():
    model = DQN(Corridor(), device="cuda:0", seed=3)
    model.learn(40)
    policy, replay = io.BytesIO(), io.BytesIO()
    model.save(policy)
    model.save_replay_buffer(replay)
    return io.BytesIO(policy.getvalue()), io.BytesIO(replay.getvalue())


def train_on_the_robot(policy, replay):
    model = DQN.load(policy, Corridor(), device="cpu")
    model.load_replay_buffer(replay)
    return model.learn(20)


loss = train_on_the_robot(*train_on_the_server())
print("loss", round(loss, 5))

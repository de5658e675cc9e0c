# thread: https://github.com/WongKinYiu/yolov7/issues/1101
# about: the loss makes a tensor that says which layer a box is from, on the CPU, and picks from it with a mask of the predictions' device.
# category: created-without-device
# operands: from_which_layer cpu, chosen cuda:0
# fails: from_which_layer = from_which_layer[chosen]
# fix: from_which_layer = from_which_layer.to(chosen.device)[chosen]



import torch


def build_targets(boxes, layer):
    from_which_layer = torch.ones(len(boxes)) * layer
    chosen = boxes[:, 2] > boxes[:, 0]
    from_which_layer = from_which_layer[chosen]
    return boxes[chosen], from_which_layer


predictions = torch.rand(20, 4).cuda()
build_targets(predictions, layer=1)

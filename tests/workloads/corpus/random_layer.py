# EXPECT {"kind":"refused-op","operation":"mm|matmul","devices":["cuda:0","cuda:1"],"operands":["features|input_list","matrix|random_matrix"],"category":"data parallel|state not registered","line":["self.random_matrix = [torch.rand(","products = [torch.mm("],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/50087","hard":"tensors in a list of a submodule that moves them itself; the fault is the replica's"}
# FIX products = [torch.mm(features, matrix) for features, matrix in zip(input_list, self.random_matrix)] -> products = [torch.mm(features, matrix.to(features.device)) for features, matrix in zip(input_list, self.random_matrix)]
import math

import torch
import torch.nn as nn


class RandomLayer(nn.Module):
    def __init__(self, input_dim_list, output_dim):
        super(RandomLayer, self).__init__()
        self.output_dim = output_dim
        self.random_matrix = [torch.rand(dim, output_dim) for dim in input_dim_list]

    def forward(self, input_list):
        products = [torch.mm(features, matrix) for features, matrix in zip(input_list, self.random_matrix)]
        result = products[0] / math.pow(float(self.output_dim), 1.0 / len(products))
        for single in products[1:]:
            result = torch.mul(result, single)
        return result

    def cuda(self):
        super(RandomLayer, self).cuda()
        self.random_matrix = [val.cuda() for val in self.random_matrix]
        return self


class DomainAdaptiveRCNN(nn.Module):
    def __init__(self, n_classes):
        super(DomainAdaptiveRCNN, self).__init__()
        self.pooled = nn.Linear(10, 6)
        self.cls_score = nn.Linear(6, n_classes)
        self.random_layer = RandomLayer([6, n_classes], 8)
        self.random_layer.cuda()
        self.domain = nn.Linear(8, 1)

    def forward(self, rois):
        pooled_feat = torch.relu(self.pooled(rois))
        cls_prob = self.cls_score(pooled_feat).softmax(1)
        return cls_prob, self.domain(self.random_layer([pooled_feat, cls_prob]))


torch.manual_seed(0)
fasterRCNN = DomainAdaptiveRCNN(n_classes=3)
fasterRCNN.cuda()
fasterRCNN = nn.DataParallel(fasterRCNN, device_ids=[0, 1])
prob, d_inst = fasterRCNN(torch.rand(8, 10))
print(prob.size(), d_inst.size(), "%.3f" % float(d_inst.sum()))

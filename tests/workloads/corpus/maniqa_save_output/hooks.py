class SaveOutput:
    def __init__(self):
        self.clear()

    def __call__(self, module, module_in, module_out):
        self.outputs.append(module_out)

    def clear(self):
        self.outputs = []

class PackConfig:
    model_type = "pack"

    def __init__(self, hidden_size=16, intermediate_size=24, heads=2):
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.heads = heads

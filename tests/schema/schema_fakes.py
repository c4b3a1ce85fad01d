"""Classes as a user may write them."""


class OpenModel:
    def __init__(self, size=0, **kwargs): ...

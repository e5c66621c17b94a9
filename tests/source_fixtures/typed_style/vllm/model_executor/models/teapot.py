class Teapot35:
    pass


class Teapot35MTP:
    pass

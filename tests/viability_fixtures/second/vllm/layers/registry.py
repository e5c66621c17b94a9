"""An operator of torch is made of a function, and a layer is found by its name while the model runs."""


def direct_register_custom_op(op_name, op_func, fake_impl=None):
    raise NotImplementedError


_context = None


def set_context(context):
    global _context
    _context = context


def get_context():
    return _context

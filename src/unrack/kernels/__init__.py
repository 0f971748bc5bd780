"""What lies under :mod:`unrack.jit`: what kernels are made of, where their machine code is kept, a sort for them."""

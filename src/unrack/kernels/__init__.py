"""What lies under :mod:`unrack.jit`: what kernels are made of, and where their machine code is kept."""

// Products of many tokens for CUDA.
#include "backend/gpu/kernels/expert_tiles.h"
#include "backend/gpu/kernels/multiply.h"

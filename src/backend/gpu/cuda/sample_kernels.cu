// Sampling for CUDA.
#include "backend/gpu/kernels/sample.h"
#include "backend/gpu/kernels/sample_draw.h"

// Kernels of a decoded token for CUDA.
#include "backend/gpu/kernels/delta_step.h"
#include "backend/gpu/kernels/embed.h"
#include "backend/gpu/kernels/experts.h"
#include "backend/gpu/kernels/project.h"

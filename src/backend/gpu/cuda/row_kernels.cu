// DeltaNet over many tokens, routing and rows for CUDA.
#include "backend/gpu/kernels/delta_chunks.h"
#include "backend/gpu/kernels/delta_inputs.h"
#include "backend/gpu/kernels/routing.h"
#include "backend/gpu/kernels/rows.h"

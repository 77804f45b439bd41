// Attention for CUDA.
#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/attention_decode.h"
#include "backend/gpu/kernels/attention_int8.h"
#include "backend/gpu/kernels/attention_prefill.h"

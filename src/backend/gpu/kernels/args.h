// Argument structs of all kernels, read by kernels and by the host.
//
// Each names its kernel and states its contract, its threads, its grid and its threadgroup memory; the host
// fills it with device addresses. Members are pointers, uint and float, pointers first, so that all compilers
// agree on the layout. Shapes that no supported model changes are enumerators.
#pragma once

#include "backend/gpu/kernels/args/attention.h"
#include "backend/gpu/kernels/args/attention_tiles.h"
#include "backend/gpu/kernels/args/delta_chunks.h"
#include "backend/gpu/kernels/args/delta_net.h"
#include "backend/gpu/kernels/args/embed.h"
#include "backend/gpu/kernels/args/expert_tiles.h"
#include "backend/gpu/kernels/args/experts.h"
#include "backend/gpu/kernels/args/multiply.h"
#include "backend/gpu/kernels/args/project.h"
#include "backend/gpu/kernels/args/routing.h"
#include "backend/gpu/kernels/args/rows.h"
#include "backend/gpu/kernels/args/sample.h"

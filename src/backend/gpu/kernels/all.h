// Every kernel's source.
#pragma once
#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/attention_decode.h"
#include "backend/gpu/kernels/attention_int8.h"
#include "backend/gpu/kernels/attention_prefill.h"
#include "backend/gpu/kernels/delta_step.h"
#include "backend/gpu/kernels/embed.h"
#include "backend/gpu/kernels/expert_tiles.h"
#include "backend/gpu/kernels/experts.h"
#include "backend/gpu/kernels/multiply.h"
#include "backend/gpu/kernels/project.h"
#include "backend/gpu/kernels/routing.h"
#include "backend/gpu/kernels/rows.h"

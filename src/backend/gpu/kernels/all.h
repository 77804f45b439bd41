// Every kernel's source.
#pragma once
#include "backend/gpu/kernels/delta_scan.h"
#include "backend/gpu/kernels/routing.h"

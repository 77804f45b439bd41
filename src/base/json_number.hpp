// Numbers as JSON and Python spell them.
#pragma once

#include <string>
#include <string_view>

namespace lily {

// True when two JSON numbers have the same decimal value, whatever their size and spelling: 1.50 and 1.5.
bool equal_numbers(std::string_view a, std::string_view b);

// Python's repr of a finite float: the shortest digits that read back as `value`, with an exponent below 1e-4
// and from 1e16 on.
std::string python_repr(double value);

}  // namespace lily

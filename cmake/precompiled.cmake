# Headers that are compiled once for many sources. Sources include what they use all the same: clang-tidy, CUDA and the
# ARM build see them without.

# lily_precompiled(NAME HEADERS ... LINK ... [OPTIONS ...]): for targets of the same options, by
# target_precompile_headers(TARGET REUSE_FROM NAME). Sources with options of their own that decide about instructions
# need SKIP_PRECOMPILE_HEADERS.
function(lily_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 P "" "" "HEADERS;LINK;OPTIONS")
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "// Only the headers before it are compiled.\n")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${P_LINK} lily_warnings)
  target_compile_options(${name} PRIVATE ${P_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${P_HEADERS})
endfunction()

# Half a second of each source's 1.6 s of processor time.
set(LILY_STANDARD_HEADERS
  <algorithm> <array> <cmath> <filesystem> <functional> <map> <memory> <optional> <span> <string> <string_view> <vector>
  <fmt/format.h>)

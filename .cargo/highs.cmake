# For `highs-sys`, which compiles HiGHS: sources are put together, a dozen at a time, and not optimised beyond what the solver gains from.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12 CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "")

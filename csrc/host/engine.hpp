// host/engine.hpp: the frame loop with its instruction loops compiled once, in host/engine_*.cpp.
#pragma once

#include "console/step.hpp"

namespace cule {

extern template void run_step<BankFetch>(Machine<HostAccess>&);
extern template void run_step<E0Fetch>(Machine<HostAccess>&);
extern template void run_step<FeFetch>(Machine<HostAccess>&);

}  // namespace cule

#include "env/ale.hpp"

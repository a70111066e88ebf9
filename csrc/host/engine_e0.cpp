// host/engine_e0.cpp: the host's instruction loop for one cartridge family.
#include "console/step.hpp"

namespace cule {

template void run_step<E0Fetch>(Machine<HostAccess>&);

}  // namespace cule

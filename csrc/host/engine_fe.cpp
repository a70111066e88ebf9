// host/engine_fe.cpp: the host's instruction loop for one cartridge family.
#include "console/step.hpp"

namespace cule {

template void run_step<FeFetch>(Machine<HostAccess>&);

}  // namespace cule

// host/engine_e0.cpp: the host's instruction loop for one cartridge family.
#include "host/engine.hpp"

namespace cule {

template Clock run_host_step<E0Fetch>(Machine<HostAccess>&, jit::Translation*);

}  // namespace cule

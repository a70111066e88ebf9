// host/engine_bank.cpp: the host's instruction loop for one cartridge family.
#include "host/engine.hpp"

namespace cule {

template Clock run_host_step<BankFetch>(Machine<HostAccess>&, jit::Translation*);

}  // namespace cule

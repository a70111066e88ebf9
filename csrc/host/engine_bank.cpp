// host/engine_bank.cpp: the host's instruction loop for one cartridge family.
#include "console/step.hpp"

namespace cule {

template void run_step<BankFetch>(Machine<HostAccess>&);

}  // namespace cule

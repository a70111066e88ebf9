// bindings/shared_batch.hpp: a batch that threads of Python and of XLA call.
#pragma once

#include <mutex>

#include "host/batch.hpp"

namespace cule {

struct SharedBatch {
  template <class... Arguments>
  explicit SharedBatch(const Arguments&... arguments) : batch(arguments...) {}

  // The batch; throws after close(). Hold `mutex`, or the GIL.
  Batch& open() {
    if (is_closed) throw BatchClosed();
    return batch;
  }

  Batch batch;
  std::mutex mutex;  // of every call but receive(), which waits for others
  bool is_closed = false;
};

}  // namespace cule

// bindings/xla_handler.hpp: what the calls of XLA share: buffers, targets, errors.
//
// Machine code of XLA knows no Python objects, so it carries the number of a target as data. A
// number of no target is refused.
#pragma once

#include <pybind11/pybind11.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "bindings/parse.hpp"
#include "bindings/xla_ffi.hpp"
#include "host/step_queue.hpp"

namespace cule::xla {

// --- Buffers --------------------------------------------------------------------------------

inline size_t count_entries(const Buffer& buffer) {
  size_t n = 1;
  for (i64 d = 0; d < buffer.rank; ++d) n *= size_t(buffer.dims[d]);
  return n;
}

template <class T>
constexpr DataType kTypeOf = kUint8;
template <>
inline constexpr DataType kTypeOf<i32> = kInt32;
template <>
inline constexpr DataType kTypeOf<float> = kFloat32;
template <>
inline constexpr DataType kTypeOf<bool> = kBool;

// The memory of buffer i, of `entries` entries.
template <class T>
T* take(const Buffers& buffers, i64 i, size_t entries, const char* name) {
  if (i >= buffers.size) refuse(std::string(name) + " is missing");
  const Buffer& buffer = *buffers.buffers[i];
  if (buffer.dtype != kTypeOf<T>) {
    refuse(std::string(name) + " has data type " + std::to_string(buffer.dtype) +
           " of XLA; it must be " + std::to_string(kTypeOf<T>));
  }
  if (count_entries(buffer) != entries) {
    refuse(std::string(name) + " has " + std::to_string(count_entries(buffer)) +
           " entries; it must have " + std::to_string(entries));
  }
  return static_cast<T*>(buffer.data);
}

// --- Targets --------------------------------------------------------------------------------

// Targets of one type by their numbers.
template <class Target>
class Registry {
 public:
  static Registry& instance() {
    static auto* const all = new Registry;  // threads of XLA may outlive static objects
    return *all;
  }

  i64 add(Target target) {
    const std::lock_guard<std::mutex> lock(mutex_);
    targets_[next_id_] = std::make_shared<const Target>(std::move(target));
    return next_id_++;
  }
  std::shared_ptr<const Target> find(i64 id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = targets_.find(id);
    if (found == targets_.end()) {
      refuse("handle names no environment; it must come from xla() of an environment that exists");
    }
    return found->second;
  }
  void remove(i64 id) {
    std::shared_ptr<const Target> last;  // freed after the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    last = std::move(targets_[id]);
    targets_.erase(id);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<i64, std::shared_ptr<const Target>> targets_;
  i64 next_id_ = 1;
};

// A target for as long as this lives.
template <class Target>
class Registered {
 public:
  explicit Registered(Target target) : id_(Registry<Target>::instance().add(std::move(target))) {}
  ~Registered() { Registry<Target>::instance().remove(id_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  i64 id() const { return id_; }

 private:
  const i64 id_;
};

// The target in the one attribute.
template <class Target>
std::shared_ptr<const Target> read_target(const CallFrame& frame) {
  const Attributes& attributes = frame.attributes;
  if (attributes.size != 1 || attributes.types[0] != kScalarAttribute) {
    refuse("there must be one attribute, a number");
  }
  const auto& scalar = *static_cast<const Scalar*>(attributes.values[0]);
  if (scalar.dtype != kInt64) refuse("the target must be an int64");
  i64 id = 0;
  std::memcpy(&id, scalar.value, sizeof id);
  return Registry<Target>::instance().find(id);
}

// --- Entry ----------------------------------------------------------------------------------

inline Error* make_error(const CallFrame& frame, ErrorCode code, const char* message) {
  ErrorArguments arguments{sizeof(ErrorArguments), nullptr, message, code};
  return frame.api->create_error(&arguments);
}

// XLA asks for the version before the first call. Sizes are compared in each call, so any version
// of the same major number will do.
inline bool answer_metadata(const CallFrame& frame) {
  if (frame.extensions == nullptr || frame.extensions->type != kMetadataExtension) return false;
  Metadata& metadata = *reinterpret_cast<MetadataExtension*>(frame.extensions)->metadata;
  metadata.version.major = 0;
  metadata.version.minor = frame.api == nullptr ? 1 : frame.api->version.minor;
  metadata.traits = 0;
  return true;
}

template <void (*call)(const CallFrame&)>
Error* handle(CallFrame* frame) {
  if (answer_metadata(*frame)) return nullptr;
  try {
    const std::string mismatch = find_mismatch(*frame);
    if (!mismatch.empty()) throw std::runtime_error(mismatch);
    call(*frame);
    return nullptr;
  } catch (const std::invalid_argument& error) {
    return make_error(*frame, kInvalidArgument, error.what());
  } catch (const NotReady& error) {
    return make_error(*frame, kFailedPrecondition, error.what());
  } catch (const CallOutOfTurn& error) {
    return make_error(*frame, kFailedPrecondition, error.what());
  } catch (const BatchClosed& error) {
    return make_error(*frame, kFailedPrecondition, error.what());
  } catch (const std::exception& error) {
    return make_error(*frame, kInternal, error.what());
  }
}

// For jax.ffi.register_ffi_target.
inline pybind11::capsule capsule_of(Handler* handler) {
  return pybind11::capsule(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET");
}

}  // namespace cule::xla

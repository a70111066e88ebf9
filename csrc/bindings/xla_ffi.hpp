// bindings/xla_ffi.hpp: the part of the C interface of XLA's foreign functions that cule calls.
//
// Layouts as in xla/ffi/api/c_api.h of OpenXLA (Copyright 2023 The OpenXLA Authors, Apache License
// 2.0), version 0.3, which jaxlib installs; written out here, so that a build needs no jax. XLA
// only appends to a structure, and puts its size first: find_mismatch() compares the sizes.
#pragma once

#include <cstddef>
#include <string>

#include "base/int.hpp"

namespace cule::xla {

struct Extension {
  size_t struct_size;
  i32 type;
  Extension* next;
};
constexpr i32 kMetadataExtension = 1;

struct Version {
  size_t struct_size;
  Extension* extensions;
  i32 major;
  i32 minor;
};

struct Error;  // owned by XLA

enum ErrorCode : i32 { kInvalidArgument = 3, kFailedPrecondition = 9, kInternal = 13 };

struct ErrorArguments {
  size_t struct_size;
  Extension* extensions;
  const char* message;  // copied
  ErrorCode code;
};

struct ErrorArgument {
  size_t struct_size;
  Extension* extensions;
  Error* error;
};

struct StreamArguments {
  size_t struct_size;
  Extension* extensions;
  void* context;  // of the call frame
  void* stream;   // result: CUstream
};

struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorArguments*);
  const void* get_message;
  void (*destroy_error)(ErrorArgument*);
  const void* register_handler;
  Error* (*get_stream)(StreamArguments*);
};

enum DataType : i32 { kBool = 1, kInt32 = 4, kInt64 = 5, kUint8 = 6, kFloat32 = 11 };

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  i64 rank;
  i64* dims;  // [rank]
};

struct Scalar {
  DataType dtype;
  void* value;
};

// Arguments, or results.
struct Buffers {
  size_t struct_size;
  Extension* extensions;
  i64 size;
  i32* types;        // [size], 1: Buffer
  Buffer** buffers;  // [size]
};

struct Text {
  const char* data;
  size_t size;
};

struct Attributes {
  size_t struct_size;
  Extension* extensions;
  i64 size;
  i32* types;     // [size]
  Text** names;   // [size]
  void** values;  // [size]
};
constexpr i32 kScalarAttribute = 3;

struct CallFrame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  i32 stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};

struct Metadata {
  size_t struct_size;
  Version version;
  u32 traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

using Handler = Error*(CallFrame*);

// Why a call cannot be understood; empty if it can. Only `api` has been relied upon.
inline std::string find_mismatch(const CallFrame& frame) {
  const auto differ = [](const char* name, size_t given, size_t wanted) {
    return std::string("the XLA FFI of this jaxlib has ") + name + " of " + std::to_string(given) +
           " bytes, and cule is built for " + std::to_string(wanted) +
           "; install a version of cule for this jaxlib";
  };
  if (frame.struct_size < sizeof frame)
    return differ("call frames", frame.struct_size, sizeof frame);
  for (const Buffers* buffers : {&frame.arguments, &frame.results}) {
    if (buffers->struct_size != sizeof(Buffers))
      return differ("argument lists", buffers->struct_size, sizeof(Buffers));
    for (i64 i = 0; i < buffers->size; ++i) {
      if (buffers->buffers[i]->struct_size < sizeof(Buffer))
        return differ("buffers", buffers->buffers[i]->struct_size, sizeof(Buffer));
    }
  }
  if (frame.attributes.struct_size != sizeof(Attributes))
    return differ("attributes", frame.attributes.struct_size, sizeof(Attributes));
  return "";
}

}  // namespace cule::xla

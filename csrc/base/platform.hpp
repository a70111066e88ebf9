// base/platform.hpp: the only file that looks at the compiler. Everything else is plain C++17 and
// is compiled unchanged for the host (g++, clang++) and for the device (nvcc).
//
// CULE_HD        function that exists on host and device
// CULE_INLINE    inlined wherever it is called, on both. With the address sanitizer the compiler
//                decides: it needs minutes and gigabytes for instruction loops full of checks
// CULE_NOINLINE  kept out of line: rare paths of hot loops
// CULE_DEVICE_NOINLINE  out of line on the device, where copies cost more than calls; the host
//                compiler decides for itself
// CULE_PLAIN     may be defined from outside: x86-64 is compiled for as other machines are
// CULE_AVX2      defined where the host can be asked for AVX2; marks a function compiled for it
// CULE_NEON      defined where the host has NEON
// CULE_VECTOR    defined with either; marks a function that uses it
// CULE_HAS_VECTORS()  whether this machine has them
// CULE_SSE2      defined where the host has SSE2 without being asked
// CULE_HAS_JIT   defined where machine code can be made and run (csrc/jit)
// CULE_ARM64     defined where it is that of AArch64
// CULE_FLUSH_CODE(begin, end)  makes code that has been written visible to what executes it
// CULE_RUN_CODE(enter, context, code)  runs it. May be defined from outside, with CULE_ARM64:
//                another processor then executes AArch64 code that way
// CULE_HAS_LARGE_PAGES  defined where the system can be asked for large pages of memory
// CULE_HAS_AFFINITY  defined where a thread can be bound to a processor
// CULE_HAS_REDUCE  defined where a warp has __reduce_min_sync: compute capability 8.0 and later
// CULE_LEAST_HERE(x)  the least x of the lanes that happen to run together, or else x
// CULE_PICK_BYTES(x, s)  byte i of the result is the byte of x that the low bits of nibble i of s
// name CULE_FUNNEL_LEFT(high, low, n)  the upper word of high:low shifted left by n, 0 to 31
// CULE_FUNNEL_RIGHT(high, low, n)  the lower word of high:low shifted right by n, 0 to 31
// CULE_DOT_BYTES(a, b, c)  c plus the products of the four bytes of a and b, unsigned
// CULE_DOT_HALVES_LOW(a, b, c)  c plus the products of the halves of a and bytes 0 and 1 of b,
// CULE_DOT_HALVES_HIGH(a, b, c)  or bytes 2 and 3, unsigned
// CULE_HIGH_PRODUCT(a, b)  the upper word of the product of two u32
// CULE_COUNT_BITS(x)  how many bits of a u32 are 1
// CULE_REVERSE_BITS(x)  bit i of a u32 becomes bit 31 - i
// CULE_BITS_BELOW(n)  the lowest n bits of a u32, all from 32 on
// CULE_MAX_HALVES(a, b)  the larger one of each pair of halves of two u32
// CULE_WRAP_HALVES(x, n)  each half of a u32, below 2 n, modulo n
// CULE_MAX_BYTES(a, b)  the larger one of each pair of bytes of two u32
// CULE_ASSUME_SHARED(p)  on the device: p points into shared memory
// CULE_ASSUME_LOCAL(p)   in linked parts of a kernel: p points into the thread's own memory, but
//                not to a byte, for which compilers before CUDA 13.2 fail. Empty elsewhere: in a
//                kernel that is compiled as one, they drop code that follows two of these
// CULE_LIKELY / CULE_UNLIKELY  branch hints
// CULE_UNREACHABLE()  what no program reaches
// CULE_TABLE(type, name, value)  defines a constant table, and on the device a copy in its memory
// CULE_LOOK_UP(name)  the table, for an index that is not a constant
// CULE_CASES_OF_BYTE(f)  the cases of a switch over a byte: each N calls f<N>()
#pragma once

#if defined(__CUDACC__)
#define CULE_HD __host__ __device__
#define CULE_INLINE __forceinline__
#define CULE_NOINLINE __noinline__
#define CULE_DEVICE_NOINLINE __noinline__
#else
#define CULE_HD
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CULE_CHECKS_ADDRESSES
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define CULE_CHECKS_ADDRESSES
#endif
#if defined(CULE_CHECKS_ADDRESSES)
#define CULE_INLINE inline
#else
#define CULE_INLINE inline __attribute__((always_inline))
#endif
#define CULE_NOINLINE __attribute__((noinline))
#define CULE_DEVICE_NOINLINE
#if defined(__linux__)
#define CULE_HAS_LARGE_PAGES
#define CULE_HAS_AFFINITY
#endif
#if defined(__x86_64__) && !defined(CULE_PLAIN)
#define CULE_AVX2 __attribute__((target("avx2")))
#define CULE_VECTOR CULE_AVX2
#define CULE_HAS_VECTORS() (__builtin_cpu_supports("avx2") != 0)
#define CULE_SSE2
#endif
#if defined(__aarch64__)
#define CULE_ARM64
#if !defined(CULE_PLAIN)
#define CULE_NEON
#define CULE_VECTOR
#define CULE_HAS_VECTORS() true
#endif
#endif
#if !defined(CULE_VECTOR)
#define CULE_HAS_VECTORS() false
#endif
#if defined(__linux__) && !defined(CULE_PLAIN) && (defined(__x86_64__) || defined(__aarch64__))
#define CULE_HAS_JIT
#define CULE_FLUSH_CODE(begin, end) __builtin___clear_cache((begin), (end))
#endif
#if !defined(CULE_RUN_CODE)
#define CULE_RUN_CODE(enter, context, code) \
  (reinterpret_cast<void (*)(void*, cule::u64)>(enter)((context), (code)))
#endif
#endif

#if defined(__CUDA_ARCH__)
#define CULE_ASSUME_SHARED(p) __builtin_assume(__isShared(p))
#else
#define CULE_ASSUME_SHARED(p) static_cast<void>(p)
#endif
#if defined(__CUDA_ARCH__) && defined(CULE_LINKED_PARTS)
#define CULE_ASSUME_LOCAL(p) __builtin_assume(__isLocal(p))
#else
#define CULE_ASSUME_LOCAL(p) static_cast<void>(p)
#endif

#if defined(__CUDACC__)
#define CULE_TABLE(type, name, value)   \
  inline constexpr type name = (value); \
  static __device__ constexpr type name##OnDevice = (value)
#else
#define CULE_TABLE(type, name, value) inline constexpr type name = (value)
#endif
#if defined(__CUDA_ARCH__)
#define CULE_LOOK_UP(name) name##OnDevice
#else
#define CULE_LOOK_UP(name) name
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define CULE_HAS_REDUCE
#endif

#if defined(__CUDA_ARCH__) && defined(CULE_HAS_REDUCE)
#define CULE_LEAST_HERE(x) (__reduce_min_sync(__activemask(), (x)))
#else
#define CULE_LEAST_HERE(x) (x)
#endif

#define CULE_LIKELY(x) (__builtin_expect(static_cast<bool>(x), 1))
#define CULE_UNLIKELY(x) (__builtin_expect(static_cast<bool>(x), 0))

#define CULE_UNREACHABLE() __builtin_unreachable()

// Index of the lowest set bit of a nonzero u32 or u64, and of the highest one.
#if defined(__CUDA_ARCH__)
#define CULE_HIGHEST_BIT(x) (31 - __clz(static_cast<int>(x)))
#define CULE_FUNNEL_LEFT(high, low, n) (__funnelshift_l((low), (high), (n)))
#define CULE_FUNNEL_RIGHT(high, low, n) (__funnelshift_r((low), (high), (n)))
#define CULE_PICK_BYTES(x, y, s) (__byte_perm((x), (y), (s)))
#define CULE_DOT_BYTES(a, b, c) (__dp4a((a), (b), (c)))
#define CULE_DOT_HALVES_LOW(a, b, c) (__dp2a_lo((a), (b), (c)))
#define CULE_DOT_HALVES_HIGH(a, b, c) (__dp2a_hi((a), (b), (c)))
#define CULE_HIGH_PRODUCT(a, b) (__umulhi((a), (b)))
#define CULE_COUNT_BITS(x) (static_cast<cule::u32>(__popc(x)))
#define CULE_REVERSE_BITS(x) (__brev(x))
#define CULE_BITS_BELOW(n) (__funnelshift_lc(~0u, 0u, (n)))
#define CULE_MAX_HALVES(a, b) (__vmaxu2((a), (b)))
#define CULE_WRAP_HALVES(x, n) (__vminu2((x), __vsub2((x), (n) * 0x10001u)))
#define CULE_MAX_BYTES(a, b) (__vmaxu4((a), (b)))
#define CULE_COUNT_TRAILING_ZEROS(x) (__ffs(static_cast<int>(x)) - 1)
#define CULE_COUNT_TRAILING_ZEROS_64(x) (__ffsll(static_cast<long long>(x)) - 1)
#else
#define CULE_HIGHEST_BIT(x) (31 - __builtin_clz(x))
#define CULE_FUNNEL_LEFT(high, low, n) (cule::funnel_left((high), (low), (n)))
#define CULE_FUNNEL_RIGHT(high, low, n) (cule::funnel_right((high), (low), (n)))
#define CULE_PICK_BYTES(x, y, s) (cule::pick_bytes((x), (y), (s)))
#define CULE_DOT_BYTES(a, b, c) (cule::dot_bytes((a), (b), (c)))
#define CULE_DOT_HALVES_LOW(a, b, c) (cule::dot_halves((a), (b), (c)))
#define CULE_DOT_HALVES_HIGH(a, b, c) (cule::dot_halves((a), (b) >> 16, (c)))
#define CULE_HIGH_PRODUCT(a, b) (static_cast<cule::u32>(cule::u64(a) * (b) >> 32))
#define CULE_COUNT_BITS(x) (static_cast<cule::u32>(__builtin_popcount(x)))
#define CULE_REVERSE_BITS(x) (cule::reverse_bits(x))
#define CULE_BITS_BELOW(n) (cule::bits_below(n))
#define CULE_MAX_HALVES(a, b) (cule::max_halves((a), (b)))
#define CULE_WRAP_HALVES(x, n) (cule::wrap_halves((x), (n)))
#define CULE_MAX_BYTES(a, b) (static_cast<cule::u32>(cule::max_bytes((a), (b))))
#define CULE_COUNT_TRAILING_ZEROS(x) __builtin_ctz(x)
#define CULE_COUNT_TRAILING_ZEROS_64(x) __builtin_ctzll(x)
#endif

#define CULE_CASES_1(f, n)                                          \
  case (n):                                                         \
    f<(n)>(); /* NOLINT(bugprone-macro-parentheses): f is a name */ \
    break;
#define CULE_CASES_4(f, n) \
  CULE_CASES_1(f, n) CULE_CASES_1(f, (n) + 1) CULE_CASES_1(f, (n) + 2) CULE_CASES_1(f, (n) + 3)
#define CULE_CASES_16(f, n) \
  CULE_CASES_4(f, n) CULE_CASES_4(f, (n) + 4) CULE_CASES_4(f, (n) + 8) CULE_CASES_4(f, (n) + 12)
#define CULE_CASES_64(f, n) \
  CULE_CASES_16(f, n)       \
  CULE_CASES_16(f, (n) + 16) CULE_CASES_16(f, (n) + 32) CULE_CASES_16(f, (n) + 48)
#define CULE_CASES_OF_BYTE(f) \
  CULE_CASES_64(f, 0) CULE_CASES_64(f, 64) CULE_CASES_64(f, 128) CULE_CASES_64(f, 192)

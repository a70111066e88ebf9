// executor.cpp: executes one block of a kernel; the functions that Python calls.
#include <cstdio>

#include "warp.hpp"

namespace sass {
namespace {

const std::vector<const std::vector<OperationEntry>*>& tables() {
  static const std::vector<const std::vector<OperationEntry>*> all = {&kIntegers, &kFloats,
                                                                      &kMemories, &kControl};
  return all;
}

// Operation 0 is unknown.
const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> found = {[](Warp&, const Instruction&) { throw Unknown(""); }};
    for (const auto* table : tables()) {
      for (const OperationEntry& entry : *table) found.push_back(entry.run);
    }
    return found;
  }();
  return all;
}

// A launch of one block, as Python fills it in.
struct Launch {
  Code code;
  u32 index[3], size[3];  // of the block
  Totals* totals;         // added to
  u64 limit;              // instructions
  u64 cycles;             // out: when the last warp was done
  u32 at;                 // out: the instruction of an error
  char message[200];      // out
};

class Run {
 public:
  explicit Run(Launch& launch) : launch_(launch) {
    std::copy_n(launch.index, 3, block_.index);
    std::copy_n(launch.size, 3, block_.size);
    const u32 threads = launch.size[0] * launch.size[1] * launch.size[2];
    block_.warps = std::vector<Warp>((threads + kLanes - 1) / kLanes);
    for (u32 k = 0; k < block_.warps.size(); ++k) {
      Warp& w = block_.warps[k];
      w.code = &launch.code;
      w.block = &block_;
      w.number = k;
      const u32 lanes = std::min(threads - k * kLanes, kLanes);
      w.groups = {{lanes == kLanes ? kEveryone : (1u << lanes) - 1, 0, {}}};
      w.predicates[kTrue] = w.predicates[kTrue + 8] = kEveryone;
    }
  }

  void run() {
    for (;;) {
      for (Warp& w : block_.warps) run_warp(w);
      const bool is_done = std::all_of(block_.warps.begin(), block_.warps.end(),
                                       [](const Warp& w) { return w.groups.empty(); });
      if (is_done) break;
      if (!release_barriers()) throw std::runtime_error("lanes wait for each other:" + waiting());
    }
    for (const Warp& w : block_.warps) launch_.cycles = std::max(launch_.cycles, w.issued + 1);
  }

 private:
  // Until no group can continue.
  void run_warp(Warp& w) {
    const auto& known = operations();
    for (;;) {
      size_t k = w.groups.size();
      while (k > 0 && w.groups[k - 1].wait.kind != Wait::kNothing) --k;
      if (k == 0) return;
      w.running = k - 1;
      w.has_moved = false;
      while (!w.has_moved) {
        Group& g = w.group();
        launch_.at = g.at;
        if (g.at >= launch_.code.size) throw std::runtime_error("end of the kernel");
        const Instruction& i = launch_.code.instructions[g.at++];
        if (launch_.limit-- == 0) throw std::runtime_error("the kernel does not end");
        issue(w, i, g.mask);
        const u32 holds = w.predicates[i.guard & 31];
        w.mask = g.mask & (i.guard & 32 ? ~holds : holds);
        if (w.mask == 0) continue;
        if (i.write_scoreboard < 6) raise(w, i.write_scoreboard, i.latency);
        if (i.read_scoreboard < 6) raise(w, i.read_scoreboard, i.read_latency);
        known[i.operation](w, i);
      }
    }
  }

  static void raise(Warp& w, u32 scoreboard, u32 latency) {
    w.scoreboards[scoreboard] = std::max(w.scoreboards[scoreboard], w.issued + latency);
  }

  void issue(Warp& w, const Instruction& i, u32 lanes) {
    u64 at = w.now;
    for (u32 rest = i.waits; rest != 0; rest &= rest - 1) {
      at = std::max(at, w.scoreboards[__builtin_ctz(rest)]);
    }
    w.issued = at;
    w.now = at + std::max<u32>(i.stall, 1);
    Totals& t = launch_.totals[i.place];
    t.instructions += 1;
    t.lanes += u32(__builtin_popcount(lanes));
    t.cycles += at - w.accounted;
    w.accounted = at;
  }

  // Whether threads were let through. All have arrived that have not left the kernel.
  bool release_barriers() {
    u32 alive = 0;
    std::map<u32, u32> arrived = block_.arrived;  // threads, by Wait::mask
    for (const Warp& w : block_.warps) {
      for (const Group& g : w.groups) {
        const u32 threads = u32(__builtin_popcount(g.mask));
        alive += threads;
        if (g.wait.kind == Wait::kBlock) arrived[g.wait.mask] += threads;
      }
    }
    bool is_any = false;
    for (const auto& [barrier, threads] : arrived) {
      if (threads < (barrier >> 16 != 0 ? barrier >> 16 : alive)) continue;
      is_any = true;
      block_.arrived.erase(barrier);
      pass(barrier);
    }
    return is_any;
  }

  // The groups of the first warp that waits.
  std::string waiting() const {
    std::string text;
    for (const Warp& w : block_.warps) {
      for (const Group& g : w.groups) {
        char line[64];
        const u32 offset = launch_.code.instructions[g.at - 1].offset;
        std::snprintf(line, sizeof line, " %#x at %#x for %#x,", g.mask, offset, g.wait.mask);
        text += line;
      }
      if (!text.empty()) break;
    }
    return text;
  }

  void pass(u32 barrier) {
    const auto waits = [&](const Group& g) { return g.wait == Wait{Wait::kBlock, barrier}; };
    u64 last = 0;
    for (const Warp& w : block_.warps) {
      if (std::any_of(w.groups.begin(), w.groups.end(), waits)) last = std::max(last, w.now);
    }
    for (Warp& w : block_.warps) {
      std::map<u32, u32> masks;  // of those that continue, by place
      for (const Group& g : w.groups) {
        if (waits(g)) masks[g.at] |= g.mask;
      }
      if (masks.empty()) continue;
      w.groups.erase(std::remove_if(w.groups.begin(), w.groups.end(), waits), w.groups.end());
      for (const auto& [at, mask] : masks) w.groups.push_back({mask, at, {}});
      w.now = last + launch_.code.delays.barrier;
      const u32 place = launch_.code.instructions[masks.begin()->first - 1].place;
      launch_.totals[place].cycles += w.now - w.accounted;
      w.accounted = w.now;
    }
    Reduction& r = block_.reductions[barrier & 15];
    if (r.votes + r.others != 0) block_.result = r;
    r = {};
  }

  Launch& launch_;
  Block block_;
};

}  // namespace
}  // namespace sass

extern "C" {

// One name a line: suffixes, special registers; or operations, each with its suffixes.
const char* sass_names(int what) {
  using namespace sass;
#define SASS_LINE(name) #name "\n"
  if (what == 0) return SASS_KINDS(SASS_LINE);
  if (what == 1) return SASS_SPECIALS(SASS_LINE);
#undef SASS_LINE
  static const std::string text = [] {
    std::string lines;
    for (const auto* table : tables()) {
      for (const OperationEntry& e : *table) lines += std::string(e.name) + " " + e.kinds + "\n";
    }
    return lines;
  }();
  return text.c_str();
}

// 0: done; 1: an instruction is not known; 2: another error.
int sass_run(sass::Launch* launch) {
  try {
    sass::Run(*launch).run();
    return 0;
  } catch (const sass::Unknown& error) {
    std::snprintf(launch->message, sizeof launch->message, "%s", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::snprintf(launch->message, sizeof launch->message, "%s", error.what());
    return 2;
  }
}

unsigned sass_instruction_bytes() { return sizeof(sass::Instruction); }
unsigned sass_launch_bytes() { return sizeof(sass::Launch); }
}

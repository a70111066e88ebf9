// rom_kernel/source.cpp: see rom_kernel/source.hpp.
#include "rom_kernel/source.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <utility>

#include "console/bus.hpp"
#include "cpu/opcodes.hpp"
#include "rom_kernel/limits.hpp"

namespace cule::rom_kernel {
namespace {

// Cost of what may run between two checks of the clock and of the log: cycles, and kEntryCost for
// each entry. No block costs more than kLongestRun and its last instruction.
constexpr u32 kLongRun = 200;
constexpr u32 kLongestRun = 400;
constexpr u32 kHighestCost = 9 + 75 + kMaxInstructionAccesses * kEntryCost;  // of an instruction
static_assert(kLongestRun + kHighestCost <= kQuietEntries * kEntryCost && kQuietEntries >= 1);
constexpr u32 kMaxBlocks = (1u << 13) - 2;
// Of one part, if a block has no more. Smaller ones compile little faster, and lanes change parts
// more often (RESULTS.md, "Compiling a game").
constexpr u32 kPartInstructions = 400;

struct Instruction {
  u32 pc;
  u64 count = 0;  // how often it was executed
  bool is_followed = false;
  bool begins_block = false;
  bool is_loop_head = false;
  u32 block = 0;        // number of the block that it begins, or 0
  u32 part = 0;         // index
  u32 cost_before = 0;  // the most since the last check, over jumps that lead here
};

std::string group_source(bool is_alone) {
  return std::string("#include \"cuda/lane_group.hpp\"\n#include \"rom_kernel/program.hpp\"\n\n") +
         "namespace cule {\nusing Group = " + (is_alone ? "LoneLane" : "LaneGroup") +
         ";\n}  // namespace cule\n\n";
}

class SourceWriter {
 public:
  SourceWriter(const Cart& cart, size_t image_bytes, const SourceOptions& options)
      : cart_(cart),
        is_alone_(options.is_alone),
        most_(std::min(options.most, kMaxBlocks)),
        fast_(fast_region(cart.type)),
        image_bytes_(u32(image_bytes)),
        window_bytes_(cart.type == Bankswitch::kE0 ? kSliceBytes : kBankBytes) {}

  std::string make(const std::vector<Place>& reached) {
    for (const Place& p : reached) insert(p);
    for (const Place& p : reached) follow(p);
    mark_blocks();
    make_parts();
    write_head();
    for (const Part& part : parts_) write_part(part);
    write_tail();
    return std::move(text_);
  }

 private:
  using At = std::map<u32, Instruction>::iterator;

  struct Part {
    std::vector<At> instructions;
    u64 count = 0;  // of instructions executed
    u32 first_block = 0;
    u32 last_block = 0;
  };
  // Lanes often run one block after the other.
  struct Edge {
    u32 from;
    u32 to;
    u64 count;
  };

  // --- facts about an instruction ---
  u32 word_at(u32 offset) const { return instruction_word(cart_.type, cart_.image, offset); }
  const Opcode& op_at(u32 offset) const { return kOpcodeTable.opcode[word_at(offset) & 0xFF]; }
  // `address` is in the window of pc.
  u32 offset_of(u32 address, u32 offset, u32 pc) const { return offset + (address - pc); }
  bool in_window(u32 address, u32 pc) const { return !((address ^ pc) & ~(window_bytes_ - 1)); }

  bool has_hotspots() const {
    return cart_.type != Bankswitch::k2K && cart_.type != Bankswitch::k4K &&
           cart_.type != Bankswitch::kFE;
  }
  bool is_hotspot(u32 address) const {
    const u32 first = cart_.type == Bankswitch::kE0 ? 0xFE0 : 0xFF6;
    return has_hotspots() && (address & 0xFFF) >= first;
  }
  // Interpreted: instructions with a trap bit, and accesses that may switch banks at a constant
  // address.
  bool has_code(u32 offset) const {
    const u32 word = word_at(offset);
    if (word & kTrapBit) return false;
    const u32 address = word >> 8 & 0xFFFF;
    return op_at(offset).mode != Mode::kAbsolute || !(address & 0x1000) || !is_hotspot(address);
  }
  bool falls_through(u32 offset) const {
    const Function f = op_at(offset).function;
    return !op_at(offset).transfers() || f == Function::kBranch;
  }
  // The target of a direct jump, branch or call. Returns false if this window does not show one.
  bool find_target(u32 offset, u32 pc, u32& target) const {
    const u32 word = word_at(offset);
    switch (op_at(offset).function) {
      case Function::kBranch:
        target = (pc + 2 + ((word >> 8 & 0xFF) ^ 0x80) - 0x80) & 0xFFFF;
        break;
      case Function::kJump:
      case Function::kJsr:
        target = word >> 8 & 0xFFFF;
        break;
      default:
        return false;
    }
    return in_window(target, pc);
  }
  // The TIA register that an instruction writes at a constant address.
  bool writes_tia(u32 offset, u32& reg) const {
    const Opcode& op = op_at(offset);
    if (op.target != Target::kToMemory) return false;
    const u32 word = word_at(offset);
    const bool is_zero_page = op.mode == Mode::kZeroPage;
    if (!is_zero_page && op.mode != Mode::kAbsolute) return false;
    const u32 address = is_zero_page ? word >> 8 & 0xFF : word >> 8 & 0xFFFF;
    reg = address & 0x3F;
    return !(address & 0x1080);
  }
  bool reads_rom_only(u32 offset) const {
    const Opcode& op = op_at(offset);
    const Mode mode = op.mode;
    if (mode != Mode::kAbsoluteX && mode != Mode::kAbsoluteY) return false;
    const u32 base = word_at(offset) >> 8 & 0xFFFF;
    const u32 o = base & 0xFFF;
    return cart_.type != Bankswitch::kE0 && base & 0x1000 && op.target != Target::kToMemory &&
           o >= fast_.begin && o + 0xFF < fast_.begin + fast_.size;
  }
  // Whether lanes ask for their logs to be rendered before it: it reads a collision latch, or is
  // indexed from one. A lane that has a warp to itself asks when it reads.
  bool asks_before(u32 offset) const { return !is_alone_ && loads_tia(offset, 0); }
  // Whether the access is, or is indexed from, a paddle, a fire button or nothing. PLA may be: some
  // programs write the TIA by PHP, with the stack there, and pull what they pushed.
  bool reads_input(u32 offset) const {
    const Opcode& op = op_at(offset);
    if (op.function == Function::kPla) return true;
    return loads_tia(offset, 8);
  }
  // Whether it loads from, or indexed from, one of eight read registers of the TIA.
  bool loads_tia(u32 offset, u32 first) const {
    const Opcode& op = op_at(offset);
    if (!op.loads() || op.stores()) return false;
    const bool is_absolute = op.mode != Mode::kOwn && op.size_bytes() == 3;
    const u32 operand = word_at(offset) >> 8;
    return op.in_zero_page() ? (operand & 0x88) == first
                             : is_absolute && (operand & 0x1088) == first;
  }
  const char* reach_of(u32 offset) const {
    return reads_rom_only(offset) ? "kRom" : reads_input(offset) ? "kInput" : "kAnything";
  }
  // Whether the access has an address that is known only at run time and may end the frame or
  // switch banks.
  bool is_wild(u32 offset) const {
    const Opcode& op = op_at(offset);
    const bool stores = op.target == Target::kToMemory;
    switch (op.mode) {
      case Mode::kZeroPageX:
      case Mode::kZeroPageY:
        return stores;
      case Mode::kAbsoluteX:
      case Mode::kAbsoluteY:
        return stores || (has_hotspots() && !reads_rom_only(offset));
      case Mode::kIndirectX:
      case Mode::kIndirectY:
        return stores || has_hotspots();
      default:
        break;
    }
    const Function f = op.function;
    return f == Function::kPha || f == Function::kPhp || f == Function::kJsr;
  }
  static u32 own_entries_of(Function f) {
    switch (f) {
      case Function::kBranch:
      case Function::kJump:
        return 0;
      case Function::kPha:
      case Function::kPhp:
      case Function::kPla:
      case Function::kPlp:
        return 2;
      default:
        return kMaxInstructionAccesses;
    }
  }
  // The most entries that the instruction makes in the log.
  u32 entries_of(u32 offset) const {
    const Opcode& op = op_at(offset);
    const u32 accesses = u32(op.loads()) + u32(op.stores());
    const u32 operand = word_at(offset) >> 8 & 0xFFFF;
    switch (op.mode) {
      case Mode::kZeroPage:
        return operand & 0x80 ? 0 : accesses;
      case Mode::kAbsolute:
        return operand & 0x1080 ? 0 : accesses;
      case Mode::kZeroPageX:
      case Mode::kZeroPageY:
        return accesses;
      case Mode::kAbsoluteX:
      case Mode::kAbsoluteY:
        return reads_rom_only(offset) ? 0 : accesses;
      case Mode::kIndirectX:
        return 2 + accesses;
      case Mode::kIndirectY:
        return (operand & 0xFF) - 0x80 < 0x7F ? accesses : 2 + accesses;
      case Mode::kOwn:
        return own_entries_of(op.function);
      default:
        return 0;
    }
  }
  // The most cycles, with a crossed page or a branch, where a store that may be to WSYNC stalls;
  // and what the entries count for.
  u32 cost_of(u32 offset) const {
    u32 reg;
    const bool stalls = (is_wild(offset) && op_at(offset).target == Target::kToMemory) ||
                        (writes_tia(offset, reg) && reg == WSYNC);
    return op_at(offset).cycles + 2 + (stalls ? 75 : 0) + entries_of(offset) * kEntryCost;
  }
  // Whether lanes meet after the instruction.
  bool ends_line(u32 offset) const {
    u32 reg;
    return writes_tia(offset, reg) && (reg == VSYNC || (reg == WSYNC && !is_alone_));
  }

  // --- which instructions there are ---
  // end(): the instruction is interpreted.
  At insert(const Place& p) {
    if (p.image_offset >= image_bytes_ || !has_code(p.image_offset)) return instructions_.end();
    At at = instructions_.find(p.image_offset);
    if (at == instructions_.end()) {
      if (instructions_.size() >= most_) return at;
      at = instructions_.insert({p.image_offset, {p.pc}}).first;
      at->second.count = p.count;
    }
    if (at->second.pc != p.pc) return instructions_.end();  // seen through another window
    at->second.begins_block |= p.is_entered;
    return at;
  }
  void follow(const Place& from) {
    std::vector<Place> wanted{from};
    while (!wanted.empty()) {
      const Place p = wanted.back();
      wanted.pop_back();
      const At at = insert(p);
      if (at == instructions_.end()) continue;
      if (std::exchange(at->second.is_followed, true)) continue;
      const u32 length = op_at(p.image_offset).size_bytes();
      const bool is_call = op_at(p.image_offset).function == Function::kJsr;
      const auto want = [&](u32 address, bool is_entered) {
        if (!in_window(address, p.pc)) return;
        wanted.push_back({offset_of(address, p.image_offset, p.pc), address, is_entered, 0});
      };
      const Function f = op_at(p.image_offset).function;
      if (falls_through(p.image_offset) || is_call) {
        want(p.pc + length, is_call || f == Function::kBranch || ends_line(p.image_offset));
      }
      u32 target;
      if (find_target(p.image_offset, p.pc, target)) want(target, true);
    }
  }

  At next_of(At at) {
    const u32 next_pc = at->second.pc + op_at(at->first).size_bytes();
    if (!falls_through(at->first) || !in_window(next_pc, at->second.pc)) return instructions_.end();
    const auto next = instructions_.find(at->first + (next_pc - at->second.pc));
    return next != instructions_.end() && next->second.pc == next_pc ? next : instructions_.end();
  }
  At target_of(At at) {
    u32 target;
    if (!find_target(at->first, at->second.pc, target)) return instructions_.end();
    const auto found = instructions_.find(offset_of(target, at->first, at->second.pc));
    return found != instructions_.end() && found->second.pc == target ? found : instructions_.end();
  }

  void mark_blocks() {
    At before = instructions_.end();
    for (At at = instructions_.begin(); at != instructions_.end(); ++at) {
      const At follower = before == instructions_.end() ? before : next_of(before);
      if (follower != at) {
        at->second.begins_block = true;
        if (follower != instructions_.end()) follower->second.begins_block = true;
      }
      const At target = target_of(at);
      if (target != instructions_.end() && target->first <= at->first) {
        target->second.is_loop_head = true;
      }
      before = at;
    }
    u32 cost = 0;
    for (auto& [offset, instruction] : instructions_) {
      instruction.begins_block |= cost > kLongestRun || asks_before(offset);
      // Checked at its beginning, or too short to matter: write() decides the same way.
      if (instruction.begins_block) cost = 0;
      cost += cost_of(offset);
    }
  }

  // --- which instructions share a function ---
  // Joins blocks that run one after the other, the most frequent first, while there is room.
  void make_parts() {
    std::vector<std::vector<At>> groups;  // one a block, then joined
    std::map<u32, u32> block_of;          // by offset in the image
    for (At at = instructions_.begin(); at != instructions_.end(); ++at) {
      if (at->second.begins_block) groups.emplace_back();
      groups.back().push_back(at);
      block_of[at->first] = u32(groups.size() - 1);
    }
    std::vector<u32> group_of(groups.size());
    for (u32 n = 0; n < group_of.size(); ++n) group_of[n] = n;
    const auto find_group = [&](u32 block) {
      while (group_of[block] != block) block = group_of[block];
      return block;
    };
    const auto join = [&](u32 a, u32 b) {
      if (a == b || groups[a].size() + groups[b].size() > kPartInstructions) return;
      groups[a].insert(groups[a].end(), groups[b].begin(), groups[b].end());
      groups[b].clear();
      group_of[b] = a;
    };
    std::vector<Edge> edges = find_edges(block_of);
    std::stable_sort(edges.begin(), edges.end(),
                     [](const Edge& a, const Edge& b) { return a.count > b.count; });
    for (const Edge& edge : edges) join(find_group(edge.from), find_group(edge.to));
    // What no edge joins, wherever there is room.
    for (u32 b = 1; b < groups.size(); ++b) {
      for (u32 a = 0; a < b && !groups[b].empty(); ++a) {
        if (!groups[a].empty()) join(a, b);
      }
    }
    for (std::vector<At>& group : groups) {
      if (!group.empty()) add_part(std::move(group));
    }
    std::stable_sort(parts_.begin(), parts_.end(),
                     [](const Part& a, const Part& b) { return a.count > b.count; });
    for (Part& part : parts_) {
      part.first_block = blocks_ + 1;
      for (const At& at : part.instructions) {
        if (at->second.begins_block) at->second.block = ++blocks_;
        at->second.part = u32(&part - parts_.data());
      }
      part.last_block = blocks_;
    }
  }
  std::vector<Edge> find_edges(const std::map<u32, u32>& block_of) {
    std::vector<Edge> edges;
    const auto add = [&](At from, At to) {
      if (to == instructions_.end() || !to->second.begins_block) return;
      edges.push_back({block_of.at(from->first), block_of.at(to->first),
                       std::min(from->second.count, to->second.count)});
    };
    for (At at = instructions_.begin(); at != instructions_.end(); ++at) {
      add(at, next_of(at));
      add(at, target_of(at));
      // A call returns.
      const bool is_call = op_at(at->first).function == Function::kJsr;
      if (is_call) add(at, instructions_.find(at->first + op_at(at->first).size_bytes()));
    }
    return edges;
  }
  void add_part(std::vector<At> instructions) {
    Part part;
    std::sort(instructions.begin(), instructions.end(),
              [](const At& a, const At& b) { return a->first < b->first; });
    for (const At& at : instructions) part.count += at->second.count;
    part.instructions = std::move(instructions);
    parts_.push_back(std::move(part));
  }

  // --- text ---
  void put(const char* format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_ += line;
  }

  void write_head() {
    put("// Made by csrc/rom_kernel/source.cpp: %u instructions in %u blocks in %u parts.\n",
        u32(instructions_.size()), blocks_, u32(parts_.size()));
    text_ += group_source(is_alone_);
    text_ += "namespace cule {\n\n";
    write_table("u8", "kImage", [this](u32 i) { return u32(cart_.image[i]); });
    write_table("u32", "kBlocks", [this](u32 i) {
      const auto at = instructions_.find(i);
      if (at == instructions_.end() || at->second.block == 0) return 0u;
      return (at->second.pc & ~(window_bytes_ - 1)) << 16 | at->second.block;
    });
    const char* fetch = cart_.type == Bankswitch::kE0   ? "E0Fetch"
                        : cart_.type == Bankswitch::kFE ? "FeFetch"
                                                        : "BankFetch";
    put("struct Program {\n  using Fetch = %s;\n", fetch);
    put("  static constexpr FastRegion kFast{%u, %u};\n", fast_.begin, fast_.size);
    put("  static constexpr u32 kWindow = 0x%X;\n", 0xFFFF & ~(window_bytes_ - 1));
    text_ +=
        "  __device__ static u32 image(u32 i) { return kImage[i]; }\n"
        "  __device__ static u32 block_at(u32 i) { return kBlocks[i]; }\n"
        "  __device__ static void run_part(u32 block, LaneMachine& m, "
        "LaneState<Program, Group>& state);\n};\n"
        "using Run = BlockRun<Program, Group>;\n"
        "using Bus = BlockBus<Program>;\n"
        "using Cpu = Execution<Bus>;\n\n";
  }

  void write_part(const Part& part) {
    put("struct Part%u {\n  static constexpr u32 kFirst = %u, kLast = %u;\n", part.first_block,
        part.first_block, part.last_block);
    text_ +=
        "  __device__ static CULE_INLINE void run_block(u32 block, const Run& r, Cpu& e, Bus& bus) "
        "{\n  u32 way;\n  switch (block) {\n";
    for (u32 n = part.first_block; n <= part.last_block; ++n) put("    case %u: goto b%u;\n", n, n);
    text_ += "    default: return;\n  }\n";
    cost_ = 0;
    for (auto at = part.instructions.begin(); at != part.instructions.end(); ++at) {
      const auto neighbour = std::next(at);
      write(*at, neighbour == part.instructions.end() ? instructions_.end() : *neighbour);
    }
    put("}\n};\nstatic __device__ CULE_NOINLINE void run_part%u(LaneMachine& m, "
        "LaneState<Program, Group>& state) {\n  run_part<Program, Part%u>(m, state);\n}\n\n",
        part.first_block, part.first_block);
  }

  template <class Value>
  void write_table(const char* type, const char* name, Value value) {
    put("static __device__ const %s %s[] = {", type, name);
    for (u32 i = 0; i < image_bytes_; ++i) put("%s%u,", i % 32 == 0 ? "\n" : "", value(i));
    text_ += "};\n\n";
  }

  void write_tail() {
    text_ +=
        "__device__ void Program::run_part(u32 block, LaneMachine& m, "
        "LaneState<Program, Group>& state) {\n";
    // A lane begins in the last part, and meets the others there.
    for (const Part& part : parts_) {
      if (&part == &parts_.back()) {
        put("  run_part%u(m, state);\n", part.first_block);
      } else {
        put("  if (block - %u <= %u) return run_part%u(m, state);\n", part.first_block,
            part.last_block - part.first_block, part.first_block);
      }
    }
    text_ +=
        "}\n\n}  // namespace cule\n\n"
        "extern \"C\" __device__ void cule_run_program(cule::LaneMachine& m, "
        "const cule::Group& lanes) {\n  cule::run_program<cule::Program>(m, lanes);\n}\n";
  }

  void begin_block(const Instruction& i, u32 offset) {
    put("b%u:  // %04X\n", i.block, i.pc);
    if (cart_.type != Bankswitch::kE0 && cart_.type != Bankswitch::kFE) {
      put("  bus.base = %u;\n", offset / kBankBytes * kBankBytes);
    }
    if (cost_ < i.cost_before) cost_ = i.cost_before;
    if (i.is_loop_head || cost_ > kLongRun) {
      text_ += "  if (r.is_late(bus)) return;\n";
      cost_ = 0;
    }
    if (asks_before(offset)) text_ += "  if (r.must_render(bus)) return;\n";
  }
  // Jumps to a block, or returns to the meeting of lanes; the program counter is set already.
  void go_to(At from, At target) {
    if (target == instructions_.end() || !target->second.begins_block ||
        target->second.part != from->second.part) {
      text_ += "return;";
      return;
    }
    if (target->second.cost_before < cost_) target->second.cost_before = cost_;
    put("goto b%u;", target->second.block);
  }

  // `neighbour`: the instruction of the part that is written next, or end().
  void write(At at, At neighbour) {
    const u32 offset = at->first;
    const u32 pc = at->second.pc;
    const u32 word = word_at(offset);
    const u32 opcode = word & 0xFF;
    const Function f = op_at(offset).function;
    if (at->second.block != 0) begin_block(at->second, offset);
    cost_ += cost_of(offset);
    if (f == Function::kBranch) {
      write_branch(at, pc, word);
    } else {
      put("  r.template run<0x%02X>(e, bus, 0x%04X, 0x%06X, Reach::%s);\n", opcode, pc, word,
          reach_of(offset));
      if (f == Function::kJump || f == Function::kJsr) {
        if (is_wild(offset)) text_ += "  if (r.must_meet(bus)) return;\n";
        text_ += "  ";
        go_to(at, target_of(at));
        text_ += '\n';
      } else if (op_at(offset).transfers() || ends_line(offset)) {
        text_ += "  return;\n";
        cost_ = 0;
        return;
      } else if (is_wild(offset)) {
        text_ += "  if (r.must_meet(bus)) return;\n";
      }
    }
    const At next = next_of(at);
    if (falls_through(offset) && (next == instructions_.end() || next != neighbour)) {
      text_ += "  ";
      go_to(at, next);
      text_ += '\n';
    }
    if (!falls_through(offset) || next != neighbour) cost_ = 0;
  }

  void write_branch(At at, u32 pc, u32 word) {
    const u32 opcode = word & 0xFF;
    const At target = target_of(at);
    const bool may_idle = (word >> 8 & 0xFF) >= kShortestIdleLoop && target != instructions_.end();
    const u32 idle = may_idle ? word_at(target->first) : 0;
    put("  way = r.template branch<0x%02X, 0x%06X>(e, bus, 0x%04X, 0x%06X);\n", opcode, idle, pc,
        word);
    if (may_idle) {
      text_ += "  if (way != r.kStays) return;\n";
      return;
    }
    text_ += "  if (way == r.kGoes) ";
    go_to(at, target);
    text_ += "\n  if (way == r.kParts) return;\n";
  }

  const Cart cart_;
  const bool is_alone_;
  const u32 most_;
  const FastRegion fast_;
  const u32 image_bytes_;
  const u32 window_bytes_;
  std::map<u32, Instruction> instructions_;  // by offset in the image
  std::string text_;
  std::vector<Part> parts_;  // those executed most first
  u32 blocks_ = 0;
  u32 cost_ = 0;  // the most since the last check
};

}  // namespace

std::string make_source(const Cart& cart, size_t image_bytes, const SourceOptions& options,
                        std::vector<Place> reached) {
  std::stable_sort(reached.begin(), reached.end(),
                   [](const Place& a, const Place& b) { return a.count > b.count; });
  return SourceWriter(cart, image_bytes, options).make(reached);
}

std::string make_kernel_source(bool is_alone) {
  return group_source(is_alone) + "#include \"rom_kernel/kernel.hpp\"\n";
}

}  // namespace cule::rom_kernel

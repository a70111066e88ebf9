// jit/translation.cpp: tables of code, and how code is entered and left.
#include "jit/translation.hpp"

#include <cstddef>

#include "jit/translation_lock.hpp"
#include "jit/translator.hpp"

namespace cule::jit {

namespace {

// Registers of the 6507 that live in registers of the host.
struct Home {
  Reg reg;
  i32 offset;
};
constexpr Home kHomes[] = {
    {kA, offsetof(Context, a)},       {kX, offsetof(Context, x)},
    {kY, offsetof(Context, y)},       {kSp, offsetof(Context, sp)},
    {kNz, offsetof(Context, nz)},     {kCarry, offsetof(Context, c)},
    {kTime, offsetof(Context, time)}, {kInstructions, offsetof(Context, instructions)},
};
constexpr Home kWideHomes[] = {
    {kLog, offsetof(Context, next)},
    {kRam, offsetof(Context, ram)},
    {kImage, offsetof(Context, image)},
    {kTable, offsetof(Context, table)},
};

}  // namespace

Translation::Translation(const Cart& cart, size_t bytes)
    : cart_(cart), piece_bits_(lowest_bit(piece_size(cart.type))), memory_(new CodeMemory(bytes)) {}

Translation::~Translation() = default;

std::unique_ptr<Translation> Translation::make(const Cart& cart, size_t bytes) {
  std::unique_ptr<Translation> t(new Translation(cart, bytes));
  return t->memory_->is_valid() && t->make_entry() ? std::move(t) : nullptr;
}

size_t Translation::code_bytes() const { return memory_->used(); }

// What code needs around it: the way in; the way out, with pc in kTemp1; and accesses to devices,
// with the time in kTemp0, and address and open_bus or value in kTemp1.
bool Translation::make_entry() {
  Assembler as(memory_->next());
  const auto at = [](size_t offset) { return Mem{kContext, i32(offset)}; };
  enter_ = as.here();
  as.enter();
  for (const Home& h : kHomes) as.load(h.reg, at(h.offset));
  for (const Home& h : kWideHomes) as.load64(h.reg, at(h.offset));
  as.jump(kTemp0);

  unknown_ = as.here();
  as.move(kTemp0, kTemp0);  // only so that the two differ
  interpret_ = as.here();
  for (const Home& h : kHomes) as.store(at(h.offset), h.reg);
  as.store(at(offsetof(Context, pc)), kTemp1);
  as.store64(at(offsetof(Context, next)), kLog);
  as.leave();

  const auto make_access = [&](size_t function) {
    const u64 here = as.here();
    as.store(at(offsetof(Context, time)), kTemp0);
    for (const Home& h : kHomes) {
      if (is_lost_in_calls(h.reg)) as.store(at(h.offset), h.reg);
    }
    as.store64(at(offsetof(Context, next)), kLog);
    as.call_function(at(function));
    for (const Home& h : kHomes) {
      if (is_lost_in_calls(h.reg)) as.load(h.reg, at(h.offset));
    }
    for (const Home& h : kWideHomes) {
      if (is_lost_in_calls(h.reg) || h.reg == kLog) as.load64(h.reg, at(h.offset));
    }
    as.ret();
    return here;
  };
  read_ = make_access(offsetof(Context, read));
  write_ = make_access(offsetof(Context, write));
  count_polls_ = make_access(offsetof(Context, count_polls));
  return memory_->add(as.bytes().data(), as.bytes().size());
}

void Translation::translate(u32 piece_bytes, u32 pc) {
  const TranslationLock lock;
  const u32 at = slot(piece_bytes, pc);
  CodeTable* table = tables_[at].load(std::memory_order_relaxed);
  if (table == nullptr) {
    owned_.emplace_back(new CodeTable{});
    table = owned_.back().get();
    for (auto& code : table->code) code.store(unknown_, std::memory_order_relaxed);
    for (u32 n = 0; n < 2 * 256; ++n) table->crossing[n] = (n >> 8) << kTimeShift;
    for (u32 reg = 0; reg < kNumRegisters; ++reg) table->kept[reg] = register_row(reg).kept;
    tables_[at].store(table, std::memory_order_release);
  }
  if (table->code[pc & 0xFFF].load(std::memory_order_relaxed) != unknown_) return;
  // Where there is no room any more, this place is interpreted from now on.
  table->code[pc & 0xFFF].store(interpret_, std::memory_order_release);
  if (is_full_) return;
  const auto code_at = [this, table, pc](u32 place) {
    return place == pc ? unknown_ : table->code[place & 0xFFF].load(std::memory_order_relaxed);
  };
  Translator translator(cart_, piece_bytes, pc >> piece_bits_ << piece_bits_, memory_->next(),
                        {unknown_, interpret_, read_, write_, count_polls_}, code_at);
  translator.translate(pc);
  const std::vector<u8>& code = translator.code();
  if (!code.empty() && !(translator.is_valid() && memory_->add(code.data(), code.size()))) {
    is_full_ = true;
    return;
  }
  for (const auto& [place, block] : translator.blocks()) {
    table->code[place & 0xFFF].store(block.address, std::memory_order_release);
  }
}

}  // namespace cule::jit

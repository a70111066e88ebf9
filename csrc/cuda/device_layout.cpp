// cuda/device_layout.cpp: see cuda/device_layout.hpp.
#include "cuda/device_layout.hpp"

#include <algorithm>

#include "cuda/step_memory.hpp"
#include "obs/palette.hpp"
#include "warp/lane_opcodes.hpp"

namespace cule {
namespace {

constexpr size_t kAlignment = 256;  // of every array

size_t align(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

Family family_of(Bankswitch type) {
  return type == Bankswitch::kE0 ? kE0Family : type == Bankswitch::kFE ? kFeFamily : kBankFamily;
}

// Bytes of the image that instructions can be fetched from.
size_t code_bytes(const GameSource& g) {
  return g.type == Bankswitch::kDPC ? 2 * kBankBytes : g.image.size() / kSliceBytes * kSliceBytes;
}

}  // namespace

// Appends arrays to a buffer and returns the device address of each.
class DeviceLayout::Writer {
 public:
  explicit Writer(u64 address) : address_(address) {}

  template <class T>
  T* put(const T* data, size_t n) {
    const size_t at = align(bytes_.size());
    bytes_.resize(at + std::max<size_t>(n, 1) * sizeof(T));
    if (n > 0) std::memcpy(bytes_.data() + at, data, n * sizeof(T));
    return reinterpret_cast<T*>(address_ + at);
  }
  template <class T>
  T* put(const std::vector<T>& data) {
    return put(data.data(), data.size());
  }
  std::vector<u8>& bytes() { return bytes_; }

 private:
  u64 address_;
  std::vector<u8> bytes_;
};

DeviceLayout::DeviceLayout(BatchSource source) : source_(std::move(source)) {
  const BatchOptions& o = source_.options;
  for (const GameSource& g : source_.games) {
    picture_bytes_ = std::max(picture_bytes_, g.properties.height * kScreenWidth);
    snapshot_bytes_ = std::max(snapshot_bytes_, u32(snapshot_layout(o, g.properties.height).end));
  }
  place_at(0, 0, 0);
}

void DeviceLayout::lay_out(Writer& w) {
  const BatchOptions& o = source_.options;
  const u8* gray[2] = {w.put(gray_table(Format::kNtsc), 256), w.put(gray_table(Format::kPal), 256)};
  const u8* rgb[2] = {w.put(rgb_table(Format::kNtsc), 768), w.put(rgb_table(Format::kPal), 768)};
  std::vector<DeviceGame> games;
  for (const GameSource& g : source_.games) {
    DeviceGame d{};
    std::vector<u32> words(code_bytes(g));
    for (u32 i = 0; i < words.size(); ++i) {
      const u32 word = instruction_word(g.type, g.image.data(), i);
      words[i] = is_slow(kOpcodeTable.opcode[word & 0xFF]) ? word | kTrapBit : word;
    }
    const u8* image = w.put(g.image);
    d.cart.image = image;
    d.cart.opcodes = image;  // differs from `traps`
    d.cart.traps = nullptr;
    d.cart.type = g.type;
    d.cart.words = w.put(words);
    d.properties = g.properties;
    d.facts = g.facts;
    d.facts.step_code = w.put(g.step_code);
    d.facts.lives_code = w.put(g.lives_code);
    d.objects = w.put(g.objects);
    if (!g.modifications.empty()) d.facts.modifications = w.put(g.modifications);
    d.facts.setup_code = nullptr;
    d.facts.starting_actions = nullptr;
    d.facts.starting_actions_size = 0;
    d.ale = g.ale;
    d.agent = g.agent;
    d.actions = w.put(g.actions);
    d.num_actions = i32(g.actions.size());
    const u32 format = u32(g.properties.format);
    d.gray = gray[format];
    d.rgb = rgb[format];
    if (o.draws()) {
      const DotResizer dot_resizer = make_dot_resizer(g.resizer);
      d.resizer = w.put(&g.resizer, 1);
      d.dot_resizer = w.put(&dot_resizer, 1);
    }
    d.snapshot = snapshot_layout(o, g.properties.height);
    d.key = g.key;
    games.push_back(d);
  }
  std::vector<ResetSet> sets;
  for (const std::vector<u8>& set : source_.reset_snapshots) {
    sets.push_back({w.put(set), u32(set.size() / snapshot_bytes_)});
  }
  std::vector<Tile> tiles[kFamilies];
  const u32 size = u32(source_.setups.size());
  for (u32 first = 0; first < size;) {
    const u32 game = source_.setups[first].game;
    u32 count = 1;
    while (count < source_.lanes_per_warp && first + count < size &&
           source_.setups[first + count].game == game) {
      ++count;
    }
    tiles[family_of(source_.games[game].type)].push_back({game, first, count});
    first += count;
  }
  for (u32 f = 0; f < kFamilies; ++f) {
    tiles_[f] = {w.put(tiles[f]), u32(tiles[f].size()), source_.warps_per_block};
  }
  const LaneOpcodes opcodes = make_lane_opcodes();
  batch_.opcodes = w.put(opcodes.opcode, kNumOpcodes);
  const IdentityMap identity = make_identity_map();
  batch_.identity = w.put(identity.value, 256);
  batch_.games = w.put(games);
  batch_.reset_sets = w.put(sets);
  batch_.pool = w.put(&pool_, 1);
  batch_.setups = w.put(source_.setups);
}

void DeviceLayout::place_changing(u64 address, size_t offset) {
  const auto put = [&](auto*& pointer, size_t n) {
    using T = std::remove_reference_t<decltype(*pointer)>;
    offset = align(offset);
    pointer = reinterpret_cast<T*>(address + offset);
    offset += n * sizeof(T);
  };
  const BatchOptions& o = source_.options;
  const size_t n = source_.setups.size();
  const size_t begin = offset;
  put(batch_.states, n);
  put(batch_.logs, n * batch_.num_logs * log_bytes(batch_.log_capacity));
  put(batch_.maxpool_sources, n);
  put(batch_.pending, n * o.pending_bytes() / sizeof(Command));
  put(batch_.stack, n * o.stack_bytes());
  put(batch_.draw_bits, n);
  console_bytes_ = (offset - begin) / n;
  const size_t scratch = size_t(source_.draw_blocks) * picture_bytes_;
  put(batch_.canvases, o.draws() ? scratch * o.channels() : 0);
  put(batch_.planes, 2 * scratch);  // snapshots hold pictures, whatever observations are
  bytes_ = align(offset);
}

void DeviceLayout::place_pool(u64 address, u64 reserve_address) {
  const BatchOptions& o = source_.options;
  const size_t taken_bytes = align(source_.pool_slots * sizeof(u32));
  batch_.maxpool_at = picture_bytes_ * (o.draws() && o.maxpool ? 3 : 2);
  pool_.slot_bytes = batch_.maxpool_at + (o.draws() ? picture_bytes_ * o.channels() : 0);
  pool_.num_slots = source_.pool_slots;
  pool_.is_taken = reinterpret_cast<u32*>(address);
  pool_.slots = reinterpret_cast<u8*>(address + taken_bytes);
  pool_.reserve = reinterpret_cast<u8*>(reserve_address);
  pool_bytes_ = taken_bytes + size_t(pool_.num_slots) * pool_.slot_bytes;
}

std::vector<u8> DeviceLayout::place_at(u64 address, u64 pool_address, u64 reserve_address) {
  const BatchOptions& o = source_.options;
  place_pool(pool_address, reserve_address);
  Writer w(address);
  lay_out(w);
  batch_.size = i32(source_.setups.size());
  batch_.stack_num = i32(o.frames_per_obs());
  batch_.frame_bytes = u32(o.frame_bytes());
  batch_.channels = o.channels();
  batch_.layout = layout_code(o);
  batch_.snapshot_bytes = snapshot_bytes_;
  batch_.picture_bytes = picture_bytes_;
  // Of the running frame and the two before it, and those that the maxpool picture is made of.
  batch_.num_logs = kLogSlots + (o.draws() ? (o.maxpool ? 2 : 1) : 0);
  batch_.log_capacity = source_.log_capacity;
  batch_.lanes_per_warp = source_.lanes_per_warp;
  batch_.continuous_action_threshold = o.continuous_action_threshold;
  batch_.grayscale = o.grayscale;
  batch_.maxpool = o.maxpool;
  batch_.obs = o.obs;
  batch_.autoreset = source_.autoreset;
  batch_.num_players = u32(o.num_players);
  batch_.max_action_delay = o.max_action_delay;
  constant_bytes_ = w.bytes().size();
  place_changing(address, constant_bytes_);
  return std::move(w.bytes());
}

}  // namespace cule

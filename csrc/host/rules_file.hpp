// host/rules_file.hpp: rules files, which hold what a game needs besides its ROM. `cule roms rules`
// writes them, and cule_game_create() (csrc/capi) reads them, for programs without Python.
//
// A RulesHeader, then words of 32 bits, all little-endian: the fields of visit_fields() in order; a
// list or text is its length and its entries. Modifications are not in it.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "batch/snapshot.hpp"
#include "host/game.hpp"

namespace cule {

constexpr char kRulesName[] = "culeRULE";
constexpr u32 kRulesVersion = 2;

struct RulesHeader {
  char name[8];
  u32 version;
  u32 num_words;
  u64 checksum;      // of the words
  u64 rom_checksum;  // of the ROM that these rules are for
};

static_assert(sizeof(RulesHeader) == 32);

struct RulesWriter {
  std::vector<i32> words;

  template <class Number>
  void operator()(Number& field) {
    words.push_back(i32(field));
  }
  void operator()(std::vector<i32>& list) { write_entries(list); }
  void operator()(std::string& text) { write_entries(text); }

 private:
  template <class List>
  void write_entries(const List& list) {
    words.push_back(i32(list.size()));
    words.insert(words.end(), list.begin(), list.end());
  }
};

struct RulesReader {
  const i32* next;
  const i32* end;

  // A field of one byte is false or true.
  template <class Number>
  void operator()(Number& field) {
    const i32 word = take();
    if (sizeof(Number) == 1 && (word < 0 || word > 1)) refuse_damage();
    field = Number(word);
  }
  void operator()(std::vector<i32>& list) { read_entries(list); }
  void operator()(std::string& text) {
    std::vector<i32> bytes;
    read_entries(bytes);
    text.clear();
    for (const i32 byte : bytes) {
      if (byte != char(byte) || u8(byte) < ' ') refuse_damage();  // it is part of messages
      text += char(byte);
    }
  }

  [[noreturn]] static void refuse_damage() {
    refuse("rules are damaged; write them again with `cule roms rules`");
  }

 private:
  i32 take() {
    if (next == end) refuse_damage();
    return *next++;
  }
  void read_entries(std::vector<i32>& list) {
    const i32 size = take();
    if (size < 0 || size > end - next) refuse_damage();
    list.assign(next, next + size);
    next += size;
  }
};

template <class Visitor>
void visit_fields(GameSpec& g, Visitor& visit) {
  ConsoleProperties& p = g.properties;
  visit(g.game_id);
  visit(g.detect_format);
  visit(p.format);
  for (u8* flag : {&p.hmove_blanks, &p.left_paddles, &p.right_paddles, &p.swap_ports}) visit(*flag);
  visit(p.swap_paddles);
  visit(p.first_line);
  visit(p.height);
  visit(g.property_difficulty);
  visit(g.default_mode);
  visit(g.paddle_max);
  visit(g.num_players);
  for (auto* list : {&g.legal_actions, &g.minimal_actions, &g.starting_actions, &g.modes,
                     &g.difficulties, &g.state, &g.step_code, &g.lives_code, &g.lives_at,
                     &g.setup_code, &g.kept_slots, &g.objects}) {
    visit(*list);
  }
}

inline u64 checksum_of_words(const std::vector<i32>& words) {
  return checksum_of(reinterpret_cast<const u8*>(words.data()), words.size() * sizeof(i32));
}

inline std::string write_rules(GameSpec spec) {
  RulesWriter writer;
  visit_fields(spec, writer);
  RulesHeader h{};
  std::memcpy(h.name, kRulesName, sizeof h.name);
  h.version = kRulesVersion;
  h.num_words = u32(writer.words.size());
  h.checksum = checksum_of_words(writer.words);
  h.rom_checksum = checksum_of(spec.rom.data(), spec.rom.size());
  std::string bytes(reinterpret_cast<const char*>(&h), sizeof h);
  return bytes.append(reinterpret_cast<const char*>(writer.words.data()),
                      writer.words.size() * sizeof(i32));
}

// The fields; what they hold is checked by Game. Throws std::invalid_argument.
inline GameSpec read_rules(const u8* data, size_t size, Bytes rom) {
  RulesHeader h{};
  if (size >= sizeof h) std::memcpy(&h, data, sizeof h);
  if (std::memcmp(h.name, kRulesName, sizeof h.name) != 0) {
    refuse("rules are " + std::to_string(size) +
           " bytes that are no rules file; they must be those of a file that `cule roms rules` "
           "wrote");
  }
  if (h.version != kRulesVersion) {
    refuse("rules have version " + std::to_string(h.version) + " of their format; it must be " +
           std::to_string(kRulesVersion) + ": write them with `cule roms rules` of this version");
  }
  std::vector<i32> words((size - sizeof h) / sizeof(i32));
  if (size != sizeof h + words.size() * sizeof(i32) || h.num_words != words.size())
    RulesReader::refuse_damage();
  if (!words.empty()) std::memcpy(words.data(), data + sizeof h, words.size() * sizeof(i32));
  if (h.checksum != checksum_of_words(words)) RulesReader::refuse_damage();
  RulesReader reader{words.data(), words.data() + words.size()};
  GameSpec spec;
  visit_fields(spec, reader);
  if (reader.next != reader.end) RulesReader::refuse_damage();
  if (h.rom_checksum != checksum_of(rom.data(), rom.size())) {
    refuse("rom is " + std::to_string(rom.size()) + " bytes that are not the ROM of these rules (" +
           spec.game_id + "); it must be the file that `cule roms rules` named, uncompressed");
  }
  spec.rom = std::move(rom);
  return spec;
}

}  // namespace cule

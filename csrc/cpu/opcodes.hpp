// cpu/opcodes.hpp: the opcode table: base cycles, addressing mode and operation of all 256 opcodes.
// Source: NOTES.md 10. The twelve opcodes without an entry jam the processor.
#pragma once

#include "cpu/execute.hpp"

namespace cule {

template <class Bus>
CULE_HD CULE_INLINE void Execution<Bus>::step(u32 opcode) {
  switch (opcode) {
      // clang-format off
    case 0x00: bus.begin(7); brk(); break;  // BRK imp
    case 0x01: bus.begin(6); set_a(a | load(indexed_indirect())); break;  // ORA izx
    case 0x03: bus.begin(8); { const Ea ea = indexed_indirect(); bus.write(ea.address, slo(load(ea))); } break;  // SLO izx
    case 0x04: bus.begin(3); load_zp(); break;  // NOP zp
    case 0x05: bus.begin(3); set_a(a | load_zp()); break;  // ORA zp
    case 0x06: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, asl(load_zp(ea))); } break;  // ASL zp
    case 0x07: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, slo(load_zp(ea))); } break;  // SLO zp
    case 0x08: bus.begin(3); push(status() | kPushedBits); pc += 1; break;  // PHP imp
    case 0x09: bus.begin(2); set_a(a | imm()); break;  // ORA imm
    case 0x0A: bus.begin(2); a = asl(a); pc += 1; break;  // ASL acc
    case 0x0B: bus.begin(2); set_a(a & imm()), c = a >> 7; break;  // ANC imm
    case 0x0C: bus.begin(4); load(absolute()); break;  // NOP abs
    case 0x0D: bus.begin(4); set_a(a | load(absolute())); break;  // ORA abs
    case 0x0E: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, asl(load(ea))); } break;  // ASL abs
    case 0x0F: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, slo(load(ea))); } break;  // SLO abs
    case 0x10: bus.begin(2); branch(!(nz & 0x180)); break;  // BPL rel
    case 0x11: bus.begin(5); set_a(a | load(indirect_indexed(true))); break;  // ORA izy
    case 0x13: bus.begin(8); { const Ea ea = indirect_indexed(false); bus.write(ea.address, slo(load(ea))); } break;  // SLO izy
    case 0x14: bus.begin(4); load_zp(zp_indexed(x)); break;  // NOP zpx
    case 0x15: bus.begin(4); set_a(a | load_zp(zp_indexed(x))); break;  // ORA zpx
    case 0x16: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, asl(load_zp(ea))); } break;  // ASL zpx
    case 0x17: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, slo(load_zp(ea))); } break;  // SLO zpx
    case 0x18: bus.begin(2); c = 0; pc += 1; break;  // CLC imp
    case 0x19: bus.begin(4); set_a(a | load(absolute_indexed(y, true))); break;  // ORA absy
    case 0x1A: bus.begin(2); pc += 1; break;  // NOP imp
    case 0x1B: bus.begin(7); { const Ea ea = absolute_indexed(y, false); bus.write(ea.address, slo(load(ea))); } break;  // SLO absy
    case 0x1C: bus.begin(4); load(absolute_indexed(x, true)); break;  // NOP absx
    case 0x1D: bus.begin(4); set_a(a | load(absolute_indexed(x, true))); break;  // ORA absx
    case 0x1E: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, asl(load(ea))); } break;  // ASL absx
    case 0x1F: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, slo(load(ea))); } break;  // SLO absx
    case 0x20: bus.begin(6); jsr(); break;  // JSR abs
    case 0x21: bus.begin(6); set_a(a & load(indexed_indirect())); break;  // AND izx
    case 0x23: bus.begin(8); { const Ea ea = indexed_indirect(); bus.write(ea.address, rla(load(ea))); } break;  // RLA izx
    case 0x24: bus.begin(3); bit(load_zp()); break;  // BIT zp
    case 0x25: bus.begin(3); set_a(a & load_zp()); break;  // AND zp
    case 0x26: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, rol(load_zp(ea))); } break;  // ROL zp
    case 0x27: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, rla(load_zp(ea))); } break;  // RLA zp
    case 0x28: bus.begin(4); set_status(pull(bus.read_stack(sp, 0x28))); pc += 1; break;  // PLP imp
    case 0x29: bus.begin(2); set_a(a & imm()); break;  // AND imm
    case 0x2A: bus.begin(2); a = rol(a); pc += 1; break;  // ROL acc
    case 0x2B: bus.begin(2); set_a(a & imm()), c = a >> 7; break;  // ANC imm
    case 0x2C: bus.begin(4); bit(load(absolute())); break;  // BIT abs
    case 0x2D: bus.begin(4); set_a(a & load(absolute())); break;  // AND abs
    case 0x2E: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, rol(load(ea))); } break;  // ROL abs
    case 0x2F: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, rla(load(ea))); } break;  // RLA abs
    case 0x30: bus.begin(2); branch(nz & 0x180); break;  // BMI rel
    case 0x31: bus.begin(5); set_a(a & load(indirect_indexed(true))); break;  // AND izy
    case 0x33: bus.begin(8); { const Ea ea = indirect_indexed(false); bus.write(ea.address, rla(load(ea))); } break;  // RLA izy
    case 0x34: bus.begin(4); load_zp(zp_indexed(x)); break;  // NOP zpx
    case 0x35: bus.begin(4); set_a(a & load_zp(zp_indexed(x))); break;  // AND zpx
    case 0x36: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, rol(load_zp(ea))); } break;  // ROL zpx
    case 0x37: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, rla(load_zp(ea))); } break;  // RLA zpx
    case 0x38: bus.begin(2); c = 1; pc += 1; break;  // SEC imp
    case 0x39: bus.begin(4); set_a(a & load(absolute_indexed(y, true))); break;  // AND absy
    case 0x3A: bus.begin(2); pc += 1; break;  // NOP imp
    case 0x3B: bus.begin(7); { const Ea ea = absolute_indexed(y, false); bus.write(ea.address, rla(load(ea))); } break;  // RLA absy
    case 0x3C: bus.begin(4); load(absolute_indexed(x, true)); break;  // NOP absx
    case 0x3D: bus.begin(4); set_a(a & load(absolute_indexed(x, true))); break;  // AND absx
    case 0x3E: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, rol(load(ea))); } break;  // ROL absx
    case 0x3F: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, rla(load(ea))); } break;  // RLA absx
    case 0x40: bus.begin(6); rti(); break;  // RTI imp
    case 0x41: bus.begin(6); set_a(a ^ load(indexed_indirect())); break;  // EOR izx
    case 0x43: bus.begin(8); { const Ea ea = indexed_indirect(); bus.write(ea.address, sre(load(ea))); } break;  // SRE izx
    case 0x44: bus.begin(3); load_zp(); break;  // NOP zp
    case 0x45: bus.begin(3); set_a(a ^ load_zp()); break;  // EOR zp
    case 0x46: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, lsr(load_zp(ea))); } break;  // LSR zp
    case 0x47: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, sre(load_zp(ea))); } break;  // SRE zp
    case 0x48: bus.begin(3); push(a); pc += 1; break;  // PHA imp
    case 0x49: bus.begin(2); set_a(a ^ imm()); break;  // EOR imm
    case 0x4A: bus.begin(2); a = lsr(a); pc += 1; break;  // LSR acc
    case 0x4B: bus.begin(2); set_a(lsr(a & imm())); break;  // ALR imm
    case 0x4C: bus.begin(3); { const Ea ea = absolute(); pc = ea.address; bus.transfer(*this, ea.open_bus); } break;  // JMP abs
    case 0x4D: bus.begin(4); set_a(a ^ load(absolute())); break;  // EOR abs
    case 0x4E: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, lsr(load(ea))); } break;  // LSR abs
    case 0x4F: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, sre(load(ea))); } break;  // SRE abs
    case 0x50: bus.begin(2); branch(!v); break;  // BVC rel
    case 0x51: bus.begin(5); set_a(a ^ load(indirect_indexed(true))); break;  // EOR izy
    case 0x53: bus.begin(8); { const Ea ea = indirect_indexed(false); bus.write(ea.address, sre(load(ea))); } break;  // SRE izy
    case 0x54: bus.begin(4); load_zp(zp_indexed(x)); break;  // NOP zpx
    case 0x55: bus.begin(4); set_a(a ^ load_zp(zp_indexed(x))); break;  // EOR zpx
    case 0x56: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, lsr(load_zp(ea))); } break;  // LSR zpx
    case 0x57: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, sre(load_zp(ea))); } break;  // SRE zpx
    case 0x58: bus.begin(2); i = 0; pc += 1; break;  // CLI imp
    case 0x59: bus.begin(4); set_a(a ^ load(absolute_indexed(y, true))); break;  // EOR absy
    case 0x5A: bus.begin(2); pc += 1; break;  // NOP imp
    case 0x5B: bus.begin(7); { const Ea ea = absolute_indexed(y, false); bus.write(ea.address, sre(load(ea))); } break;  // SRE absy
    case 0x5C: bus.begin(4); load(absolute_indexed(x, true)); break;  // NOP absx
    case 0x5D: bus.begin(4); set_a(a ^ load(absolute_indexed(x, true))); break;  // EOR absx
    case 0x5E: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, lsr(load(ea))); } break;  // LSR absx
    case 0x5F: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, sre(load(ea))); } break;  // SRE absx
    case 0x60: bus.begin(6); rts(); break;  // RTS imp
    case 0x61: bus.begin(6); adc(load(indexed_indirect())); break;  // ADC izx
    case 0x63: bus.begin(8); { const Ea ea = indexed_indirect(); bus.write(ea.address, rra(load(ea))); } break;  // RRA izx
    case 0x64: bus.begin(3); load_zp(); break;  // NOP zp
    case 0x65: bus.begin(3); adc(load_zp()); break;  // ADC zp
    case 0x66: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, ror(load_zp(ea))); } break;  // ROR zp
    case 0x67: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, rra(load_zp(ea))); } break;  // RRA zp
    case 0x68: bus.begin(4); set_a(pull(bus.read_stack(sp, 0x68))); pc += 1; break;  // PLA imp
    case 0x69: bus.begin(2); adc(imm()); break;  // ADC imm
    case 0x6A: bus.begin(2); a = ror(a); pc += 1; break;  // ROR acc
    case 0x6B: bus.begin(2); arr(imm()); break;  // ARR imm
    case 0x6C: bus.begin(5); jump_indirect(); break;  // JMP ind
    case 0x6D: bus.begin(4); adc(load(absolute())); break;  // ADC abs
    case 0x6E: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, ror(load(ea))); } break;  // ROR abs
    case 0x6F: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, rra(load(ea))); } break;  // RRA abs
    case 0x70: bus.begin(2); branch(v); break;  // BVS rel
    case 0x71: bus.begin(5); adc(load(indirect_indexed(true))); break;  // ADC izy
    case 0x73: bus.begin(8); { const Ea ea = indirect_indexed(false); bus.write(ea.address, rra(load(ea))); } break;  // RRA izy
    case 0x74: bus.begin(4); load_zp(zp_indexed(x)); break;  // NOP zpx
    case 0x75: bus.begin(4); adc(load_zp(zp_indexed(x))); break;  // ADC zpx
    case 0x76: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, ror(load_zp(ea))); } break;  // ROR zpx
    case 0x77: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, rra(load_zp(ea))); } break;  // RRA zpx
    case 0x78: bus.begin(2); i = 1; pc += 1; break;  // SEI imp
    case 0x79: bus.begin(4); adc(load(absolute_indexed(y, true))); break;  // ADC absy
    case 0x7A: bus.begin(2); pc += 1; break;  // NOP imp
    case 0x7B: bus.begin(7); { const Ea ea = absolute_indexed(y, false); bus.write(ea.address, rra(load(ea))); } break;  // RRA absy
    case 0x7C: bus.begin(4); load(absolute_indexed(x, true)); break;  // NOP absx
    case 0x7D: bus.begin(4); adc(load(absolute_indexed(x, true))); break;  // ADC absx
    case 0x7E: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, ror(load(ea))); } break;  // ROR absx
    case 0x7F: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, rra(load(ea))); } break;  // RRA absx
    case 0x80: bus.begin(2); imm(); break;  // NOP imm
    case 0x81: bus.begin(6); bus.write(indexed_indirect().address, a); break;  // STA izx
    case 0x82: bus.begin(2); imm(); break;  // NOP imm
    case 0x83: bus.begin(6); bus.write(indexed_indirect().address, a & x); break;  // SAX izx
    case 0x84: bus.begin(3); bus.write_zero_page(zp(), y); break;  // STY zp
    case 0x85: bus.begin(3); bus.write_zero_page(zp(), a); break;  // STA zp
    case 0x86: bus.begin(3); bus.write_zero_page(zp(), x); break;  // STX zp
    case 0x87: bus.begin(3); bus.write_zero_page(zp(), a & x); break;  // SAX zp
    case 0x88: bus.begin(2); set_y(dec(y)); pc += 1; break;  // DEY imp
    case 0x89: bus.begin(2); imm(); break;  // NOP imm
    case 0x8A: bus.begin(2); set_a(x); pc += 1; break;  // TXA imp
    case 0x8B: bus.begin(2); set_a((a | 0xEE) & x & imm()); break;  // ANE imm
    case 0x8C: bus.begin(4); bus.write(absolute().address, y); break;  // STY abs
    case 0x8D: bus.begin(4); bus.write(absolute().address, a); break;  // STA abs
    case 0x8E: bus.begin(4); bus.write(absolute().address, x); break;  // STX abs
    case 0x8F: bus.begin(4); bus.write(absolute().address, a & x); break;  // SAX abs
    case 0x90: bus.begin(2); branch(!c); break;  // BCC rel
    case 0x91: bus.begin(6); bus.write(indirect_indexed(false).address, a); break;  // STA izy
    case 0x93: bus.begin(6); store_high(indirect_indexed(false).address, a & x); break;  // SHA izy
    case 0x94: bus.begin(4); bus.write_zero_page(zp_indexed(x).address, y); break;  // STY zpx
    case 0x95: bus.begin(4); bus.write_zero_page(zp_indexed(x).address, a); break;  // STA zpx
    case 0x96: bus.begin(4); bus.write_zero_page(zp_indexed(y).address, x); break;  // STX zpy
    case 0x97: bus.begin(4); bus.write_zero_page(zp_indexed(y).address, a & x); break;  // SAX zpy
    case 0x98: bus.begin(2); set_a(y); pc += 1; break;  // TYA imp
    case 0x99: bus.begin(5); bus.write(absolute_indexed(y, false).address, a); break;  // STA absy
    case 0x9A: bus.begin(2); sp = x; pc += 1; break;  // TXS imp
    case 0x9B: bus.begin(5); store_high(absolute_indexed(y, false).address, sp = a & x); break;  // TAS absy
    case 0x9C: bus.begin(5); store_high(absolute_indexed(x, false).address, y); break;  // SHY absx
    case 0x9D: bus.begin(5); bus.write(absolute_indexed(x, false).address, a); break;  // STA absx
    case 0x9E: bus.begin(5); store_high(absolute_indexed(y, false).address, x); break;  // SHX absy
    case 0x9F: bus.begin(5); store_high(absolute_indexed(y, false).address, a & x); break;  // SHA absy
    case 0xA0: bus.begin(2); set_y(imm()); break;  // LDY imm
    case 0xA1: bus.begin(6); set_a(load(indexed_indirect())); break;  // LDA izx
    case 0xA2: bus.begin(2); set_x(imm()); break;  // LDX imm
    case 0xA3: bus.begin(6); set_x(a = load(indexed_indirect())); break;  // LAX izx
    case 0xA4: bus.begin(3); set_y(load_zp()); break;  // LDY zp
    case 0xA5: bus.begin(3); set_a(load_zp()); break;  // LDA zp
    case 0xA6: bus.begin(3); set_x(load_zp()); break;  // LDX zp
    case 0xA7: bus.begin(4); set_x(a = load_zp()); break;  // LAX zp
    case 0xA8: bus.begin(2); set_y(a); pc += 1; break;  // TAY imp
    case 0xA9: bus.begin(2); set_a(imm()); break;  // LDA imm
    case 0xAA: bus.begin(2); set_x(a); pc += 1; break;  // TAX imp
    case 0xAB: bus.begin(2); set_x(a = (a | 0xEE) & imm()); break;  // LXA imm
    case 0xAC: bus.begin(4); set_y(load(absolute())); break;  // LDY abs
    case 0xAD: bus.begin(4); set_a(load(absolute())); break;  // LDA abs
    case 0xAE: bus.begin(4); set_x(load(absolute())); break;  // LDX abs
    case 0xAF: bus.begin(4); set_x(a = load(absolute())); break;  // LAX abs
    case 0xB0: bus.begin(2); branch(c); break;  // BCS rel
    case 0xB1: bus.begin(5); set_a(load(indirect_indexed(true))); break;  // LDA izy
    case 0xB3: bus.begin(5); set_x(a = load(indirect_indexed(true))); break;  // LAX izy
    case 0xB4: bus.begin(4); set_y(load_zp(zp_indexed(x))); break;  // LDY zpx
    case 0xB5: bus.begin(4); set_a(load_zp(zp_indexed(x))); break;  // LDA zpx
    case 0xB6: bus.begin(4); set_x(load_zp(zp_indexed(y))); break;  // LDX zpy
    case 0xB7: bus.begin(4); set_x(a = load_zp(zp_indexed(y))); break;  // LAX zpy
    case 0xB8: bus.begin(2); v = 0; pc += 1; break;  // CLV imp
    case 0xB9: bus.begin(4); set_a(load(absolute_indexed(y, true))); break;  // LDA absy
    case 0xBA: bus.begin(2); set_x(sp); pc += 1; break;  // TSX imp
    case 0xBB: bus.begin(4); set_x(a = sp = sp & load(absolute_indexed(y, true))); break;  // LAS absy
    case 0xBC: bus.begin(4); set_y(load(absolute_indexed(x, true))); break;  // LDY absx
    case 0xBD: bus.begin(4); set_a(load(absolute_indexed(x, true))); break;  // LDA absx
    case 0xBE: bus.begin(4); set_x(load(absolute_indexed(y, true))); break;  // LDX absy
    case 0xBF: bus.begin(4); set_x(a = load(absolute_indexed(y, true))); break;  // LAX absy
    case 0xC0: bus.begin(2); compare(y, imm()); break;  // CPY imm
    case 0xC1: bus.begin(6); compare(a, load(indexed_indirect())); break;  // CMP izx
    case 0xC2: bus.begin(2); imm(); break;  // NOP imm
    case 0xC3: bus.begin(8); { const Ea ea = indexed_indirect(); bus.write(ea.address, dcp(load(ea))); } break;  // DCP izx
    case 0xC4: bus.begin(3); compare(y, load_zp()); break;  // CPY zp
    case 0xC5: bus.begin(3); compare(a, load_zp()); break;  // CMP zp
    case 0xC6: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, dec(load_zp(ea))); } break;  // DEC zp
    case 0xC7: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, dcp(load_zp(ea))); } break;  // DCP zp
    case 0xC8: bus.begin(2); set_y(inc(y)); pc += 1; break;  // INY imp
    case 0xC9: bus.begin(2); compare(a, imm()); break;  // CMP imm
    case 0xCA: bus.begin(2); set_x(dec(x)); pc += 1; break;  // DEX imp
    case 0xCB: bus.begin(2); sbx(imm()); break;  // SBX imm
    case 0xCC: bus.begin(4); compare(y, load(absolute())); break;  // CPY abs
    case 0xCD: bus.begin(4); compare(a, load(absolute())); break;  // CMP abs
    case 0xCE: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, dec(load(ea))); } break;  // DEC abs
    case 0xCF: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, dcp(load(ea))); } break;  // DCP abs
    case 0xD0: bus.begin(2); branch(nz & 0xFF); break;  // BNE rel
    case 0xD1: bus.begin(5); compare(a, load(indirect_indexed(true))); break;  // CMP izy
    case 0xD3: bus.begin(8); { const Ea ea = indirect_indexed(false); bus.write(ea.address, dcp(load(ea))); } break;  // DCP izy
    case 0xD4: bus.begin(4); load_zp(zp_indexed(x)); break;  // NOP zpx
    case 0xD5: bus.begin(4); compare(a, load_zp(zp_indexed(x))); break;  // CMP zpx
    case 0xD6: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, dec(load_zp(ea))); } break;  // DEC zpx
    case 0xD7: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, dcp(load_zp(ea))); } break;  // DCP zpx
    case 0xD8: bus.begin(2); d = 0; pc += 1; break;  // CLD imp
    case 0xD9: bus.begin(4); compare(a, load(absolute_indexed(y, true))); break;  // CMP absy
    case 0xDA: bus.begin(2); pc += 1; break;  // NOP imp
    case 0xDB: bus.begin(7); { const Ea ea = absolute_indexed(y, false); bus.write(ea.address, dcp(load(ea))); } break;  // DCP absy
    case 0xDC: bus.begin(4); load(absolute_indexed(x, true)); break;  // NOP absx
    case 0xDD: bus.begin(4); compare(a, load(absolute_indexed(x, true))); break;  // CMP absx
    case 0xDE: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, dec(load(ea))); } break;  // DEC absx
    case 0xDF: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, dcp(load(ea))); } break;  // DCP absx
    case 0xE0: bus.begin(2); compare(x, imm()); break;  // CPX imm
    case 0xE1: bus.begin(6); sbc(load(indexed_indirect())); break;  // SBC izx
    case 0xE2: bus.begin(2); imm(); break;  // NOP imm
    case 0xE3: bus.begin(8); { const Ea ea = indexed_indirect(); bus.write(ea.address, isc(load(ea))); } break;  // ISC izx
    case 0xE4: bus.begin(3); compare(x, load_zp()); break;  // CPX zp
    case 0xE5: bus.begin(3); sbc(load_zp()); break;  // SBC zp
    case 0xE6: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, inc(load_zp(ea))); } break;  // INC zp
    case 0xE7: bus.begin(5); { const Ea ea = zp_indexed(0); bus.write_zero_page(ea.address, isc(load_zp(ea))); } break;  // ISC zp
    case 0xE8: bus.begin(2); set_x(inc(x)); pc += 1; break;  // INX imp
    case 0xE9: bus.begin(2); sbc(imm()); break;  // SBC imm
    case 0xEA: bus.begin(2); pc += 1; break;  // NOP imp
    case 0xEB: bus.begin(2); sbc(imm()); break;  // SBC imm
    case 0xEC: bus.begin(4); compare(x, load(absolute())); break;  // CPX abs
    case 0xED: bus.begin(4); sbc(load(absolute())); break;  // SBC abs
    case 0xEE: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, inc(load(ea))); } break;  // INC abs
    case 0xEF: bus.begin(6); { const Ea ea = absolute(); bus.write(ea.address, isc(load(ea))); } break;  // ISC abs
    case 0xF0: bus.begin(2); branch(!(nz & 0xFF)); break;  // BEQ rel
    case 0xF1: bus.begin(5); sbc(load(indirect_indexed(true))); break;  // SBC izy
    case 0xF3: bus.begin(8); { const Ea ea = indirect_indexed(false); bus.write(ea.address, isc(load(ea))); } break;  // ISC izy
    case 0xF4: bus.begin(4); load_zp(zp_indexed(x)); break;  // NOP zpx
    case 0xF5: bus.begin(4); sbc(load_zp(zp_indexed(x))); break;  // SBC zpx
    case 0xF6: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, inc(load_zp(ea))); } break;  // INC zpx
    case 0xF7: bus.begin(6); { const Ea ea = zp_indexed(x); bus.write_zero_page(ea.address, isc(load_zp(ea))); } break;  // ISC zpx
    case 0xF8: bus.begin(2); d = 1; pc += 1; break;  // SED imp
    case 0xF9: bus.begin(4); sbc(load(absolute_indexed(y, true))); break;  // SBC absy
    case 0xFA: bus.begin(2); pc += 1; break;  // NOP imp
    case 0xFB: bus.begin(7); { const Ea ea = absolute_indexed(y, false); bus.write(ea.address, isc(load(ea))); } break;  // ISC absy
    case 0xFC: bus.begin(4); load(absolute_indexed(x, true)); break;  // NOP absx
    case 0xFD: bus.begin(4); sbc(load(absolute_indexed(x, true))); break;  // SBC absx
    case 0xFE: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, inc(load(ea))); } break;  // INC absx
    case 0xFF: bus.begin(7); { const Ea ea = absolute_indexed(x, false); bus.write(ea.address, isc(load(ea))); } break;  // ISC absx
    // clang-format on
    default:
      bus.jam(*this);
      break;  // 02 12 22 32 42 52 62 72 92 B2 D2 F2
  }
}

}  // namespace cule

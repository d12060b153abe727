package main

import (
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// For so long a part of a history is checked. One that takes longer is taken for linearizable, so a greater one is shown.
const partPatience = 10 * time.Second

// shownMax is how many operations of a part are shown.
const shownMax = 60

// smallest is the part of a key's history that is already wrong: it ends at the first answer that no order explains, and
// begins as late as possible, whatever was there then.
func smallest(lines []line) []line {
	ends := make([]int64, 0, len(lines))
	for _, it := range lines {
		if !it.isUnknown() {
			ends = append(ends, it.Return)
		}
	}
	sort.Slice(ends, func(a, b int) bool { return ends[a] < ends[b] })
	isWrong := func(first register, part []line) bool {
		return check(first, part, partPatience) == porcupine.Illegal
	}
	// If a beginning is wrong, so is each that is longer.
	end := sort.Search(len(ends), func(at int) bool { return isWrong(register{}, until(lines, ends[at])) })
	if end == len(ends) {
		return lines
	}
	begun := until(lines, ends[end])
	sort.SliceStable(begun, func(a, b int) bool { return begun[a].Call < begun[b].Call })
	for at := len(begun) - 1; at >= 0; at-- {
		if part := from(begun, begun[at].Call); isWrong(register{isAny: true}, part) {
			return part
		}
	}
	return begun
}

// until is what was known of a history at a moment: what has not returned has an unknown outcome.
func until(lines []line, moment int64) []line {
	var part []line
	for _, it := range lines {
		if it.Call > moment {
			continue
		}
		part = open(part, it, it.Return > moment)
	}
	return part
}

// from is a history without what returned before a moment. What was under way then may have happened before.
func from(lines []line, moment int64) []line {
	var part []line
	for _, it := range lines {
		if it.isUnknown() || it.Return >= moment {
			part = open(part, it, it.Call < moment)
		}
	}
	return part
}

// open appends an operation, with an unknown outcome if it is to be open.
func open(part []line, it line, isOpen bool) []line {
	if isOpen && it.Op == "get" {
		return part
	}
	if isOpen {
		it.Outcome = "unknown"
	}
	return append(part, it)
}

// show writes a part, with milliseconds since its first.
func show(part []line, out io.Writer) {
	if skipped := len(part) - shownMax; skipped > 0 {
		fmt.Fprintf(out, "  … %d operations before\n", skipped)
		part = part[skipped:]
	}
	for _, it := range part {
		since := func(moment int64) string {
			return fmt.Sprintf("%10.3f", float64(moment-part[0].Call)/1e6)
		}
		end, told := since(it.Return), it.Said
		if it.isUnknown() {
			end, told = fmt.Sprintf("%10s", "?"), "unknown, or not yet"
		}
		asked := it.Op + " " + it.Value
		if it.Op == "cas" {
			asked = fmt.Sprintf("cas %s if %d", it.Value, it.Token)
		}
		if !it.isUnknown() && it.Found != "" {
			told += " " + it.Found
		}
		if !it.isUnknown() && it.Unique != 0 {
			told += fmt.Sprintf(" (unique %d)", it.Unique)
		}
		fmt.Fprintf(out, "  %s %s  client %-3d %-28s → %s\n", since(it.Call), end, it.Client, asked, told)
	}
}

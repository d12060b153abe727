package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// parse makes operations of words: `client call return op value token → said: found unique`. The outcome is unknown for `?`,
// and an error that did nothing for `!`.
func parse(t *testing.T, text string) []line {
	t.Helper()
	number := func(word string) int64 {
		value, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	var lines []line
	for _, words := range strings.Split(strings.TrimSpace(text), "\n") {
		asked, told, isFound := strings.Cut(strings.TrimSpace(words), " → ")
		parts := strings.Fields(asked)
		if !isFound || len(parts) < 4 {
			t.Fatalf("%q", words)
		}
		// What an operation doesn't take.
		parts = append(parts, []string{"", "0"}[len(parts)-4:]...)
		it := line{Client: int(number(parts[0])), Key: "k", Call: number(parts[1]), Return: number(parts[2]), Op: parts[3]}
		it.Value, it.Token, it.Outcome = parts[4], number(parts[5]), "ok"
		switch told {
		case "?":
			it.Outcome, it.Return = "unknown", 0
		case "!":
			it.Outcome = "nothing"
		default:
			said, rest, _ := strings.Cut(told, ":")
			it.Said = said
			if words := strings.Fields(rest); len(words) > 0 {
				it.Found, it.Unique = strings.Join(words[:len(words)-1], " "), number(words[len(words)-1])
			}
		}
		lines = append(lines, it)
	}
	return lines
}

// write makes a history of operations.
func write(t *testing.T, lines []line) string {
	t.Helper()
	var text bytes.Buffer
	for _, it := range lines {
		if err := json.NewEncoder(&text).Encode(it); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func history(t *testing.T, text string) string {
	t.Helper()
	return write(t, parse(t, text))
}

// verdict runs the program on a history.
func verdict(path string) (int, string) {
	var out strings.Builder
	code := run([]string{path}, &out)
	return code, out.String()
}

func TestHistoriesThatAnOrderExplains(t *testing.T) {
	for title, text := range map[string]string{
		"one after the other": `
			1 0 1 get → miss
			1 2 3 set a → stored: 1
			1 4 5 append b → stored: 2
			1 6 7 get → hit: ab 2
			1 8 9 cas 5 2 → stored: 3
			1 10 11 incr 4 → number: 9 4
			1 12 13 cas 6 2 → exists
			1 14 15 delete → deleted
			1 16 17 delete → not found
			1 18 19 append b → not stored
			1 20 21 incr 1 → not found
			1 22 23 cas 6 4 → not found
			1 24 25 set a → stored
			1 26 27 incr 1 → no number
			1 28 29 get → hit: a 9`,
		"two at once, read in either order": `
			1 0 9 set a → stored
			2 0 9 set b → stored
			3 1 2 get → hit: b 1
			3 3 4 get → hit: a 2`,
		"a touch at one moment is no order": `
			1 0 5 set a → stored
			2 5 6 get → miss`,
		"an unknown change that happens late": `
			1 0 1 set a → stored
			2 2 0 set b → ?
			1 3 4 get → hit: a 1
			1 5 6 get → hit: b 2`,
		"unknown changes that never happen": `
			1 0 1 set 1 → stored: 1
			2 2 0 set b → ?
			3 2 0 incr 1 → ?
			4 2 0 delete → ?
			5 2 0 append x → ?
			6 2 0 cas c 1 → ?
			1 3 4 get → hit: 1 1
			1 5 6 incr 1 → number: 2 2`,
		"an unknown cas that happened": `
			1 0 1 set a → stored
			2 2 0 cas b 1 → ?
			1 3 4 get → hit: b 2`,
		"an error that did nothing": `
			1 0 1 set a → stored
			1 2 3 set b → !
			1 4 5 get → hit: a 1`,
	} {
		code, said := verdict(history(t, text))
		if code != good {
			t.Errorf("%s: %d %s", title, code, said)
		}
	}
}

// planted has wrong histories, and for each what its smallest part shows.
var planted = map[string][2]string{
	"a stale read": {`
		9 0 1 set z → stored
		1 2 3 set a → stored
		1 4 5 set b → stored
		2 6 7 get → hit: b 3
		3 8 9 get → hit: a 2`, "get"},
	"a stale miss": {`
		1 0 1 set a → stored
		2 2 3 get → miss
		2 4 5 get → hit: a 1`, "get"},
	"a lost write": {`
		9 0 1 set z → stored
		1 2 3 set a → stored: 2
		2 4 5 get → hit: z 1`, "set a"},
	"a lost write under a later one": {`
		1 0 1 set a → stored
		1 2 3 append b → stored
		1 4 5 append c → stored
		1 6 7 get → hit: ac 3`, "append b"},
	"a lost delete": {`
		1 0 1 set a → stored: 1
		1 2 3 delete → deleted
		1 4 5 get → hit: a 1`, "delete"},
	"an increment that happened twice": {`
		1 0 1 set 5 → stored
		1 2 3 incr 1 → number: 6
		1 4 5 get → hit: 7 3`, "incr 1"},
	"an increment that was answered twice": {`
		1 0 1 set 5 → stored
		1 2 9 incr 1 → number: 6
		2 2 9 incr 1 → number: 6`, "incr 1"},
	"an append that happened twice": {`
		1 0 1 set a → stored
		1 2 3 append b → stored
		1 4 5 get → hit: abb 3`, "append b"},
	"two cas of one unique": {`
		1 0 1 set a → stored: 1
		1 2 9 cas b 1 → stored
		2 2 9 cas c 1 → stored`, "cas"},
	"a cas that failed and happened": {`
		1 0 1 set a → stored: 1
		1 2 3 cas b 1 → exists
		1 4 5 get → hit: b 2`, "cas b"},
	"an unknown change that is taken back": {`
		1 0 1 set a → stored
		2 2 0 set b → ?
		1 3 4 get → hit: b 2
		1 5 6 get → hit: a 1`, "get"},
	"an unknown increment that happened twice": {`
		1 0 1 set 5 → stored
		2 2 0 incr 1 → ?
		1 3 4 get → hit: 7 3`, "incr 1"},
	"an error that did something": {`
		1 0 1 set a → stored
		1 2 3 set b → !
		1 4 5 get → hit: b 2`, "get"},
	"before it was called": {`
		1 0 1 get → hit: a 1
		2 2 3 set a → stored`, "get"},
	"a unique that goes back": {`
		1 0 1 set a → stored: 7
		1 2 3 set b → stored: 6`, "set b"},
	"an item that changes and keeps its unique": {`
		1 0 1 get → miss
		1 2 3 set a → stored: 1
		1 4 5 append b → stored
		1 6 7 get → hit: ab 1`, "append b"},
}

func TestPlantedViolationsAreFound(t *testing.T) {
	for title, it := range planted {
		code, said := verdict(history(t, it[0]))
		if code != wrong || !strings.Contains(said, "key k is not linearizable") || !strings.Contains(said, it[1]) {
			t.Errorf("%s: %d %s", title, code, said)
		}
	}
}

// What is right before and after a violation isn't shown with it.
func TestTheSmallestPartLeavesOutWhatIsRight(t *testing.T) {
	for title, it := range planted {
		var lines []line
		noise := func(begin, unique int64) {
			for n := int64(0); n < 200; n++ {
				text := fmt.Sprintf("1 0 3 set v%d → stored: %d\n2 4 6 get → hit: v%d %d", n, unique+n, n, unique+n)
				for _, next := range parse(t, text) {
					next.Call, next.Return = next.Call+begin+10*n, next.Return+begin+10*n
					lines = append(lines, next)
				}
			}
			lines = append(lines, line{Key: "k", Op: "delete", Outcome: "ok", Said: "deleted", Call: begin + 2000, Return: begin + 2001})
		}
		noise(0, 1)
		for _, next := range parse(t, it[0]) {
			next.Call, next.Return = next.Call+3000, next.Return+3000
			if next.Unique > 0 {
				next.Unique += 1000
			}
			if next.Token > 0 {
				next.Token += 1000
			}
			lines = append(lines, next)
		}
		noise(4000, 3000)
		code, said := verdict(write(t, lines))
		if shown := strings.Count(said, "→"); code != wrong || !strings.Contains(said, it[1]) || shown > 7 {
			t.Errorf("%s: %d, %d operations are shown: %s", title, code, shown, said)
		}
	}
}

func TestWhatIsNoHistoryIsNotLinearizable(t *testing.T) {
	for _, text := range []string{
		"", "{", `{"op":"get"}`,
		`{"key":"k","op":"got","outcome":"ok","said":"hit","unique":1}`,
		`{"key":"k","op":"get","outcome":"ok","said":"stored"}`,
		`{"key":"k","op":"get","outcome":"ok","said":"hit","found":"a"}`,
		`{"key":"k","op":"set","outcome":"ok","said":"stored","call":2,"return":1}`,
		`{"key":"k","op":"set","outcome":"perhaps"}`,
	} {
		path := filepath.Join(t.TempDir(), "history")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, said := verdict(path); code != unclear {
			t.Errorf("%q: %d %s", text, code, said)
		}
	}
	if code, _ := verdict(filepath.Join(t.TempDir(), "none")); code != unclear {
		t.Errorf("no file: %d", code)
	}
}

func TestTheWorstVerdictCounts(t *testing.T) {
	right := history(t, "1 0 1 get → miss")
	stale := history(t, "1 0 1 set a → stored\n1 2 3 get → miss")
	var out strings.Builder
	for want, paths := range map[int][]string{
		good:    {right, right},
		wrong:   {stale, right, "none"},
		unclear: {"none", right},
	} {
		if code := run(paths, &out); code != want {
			t.Errorf("%v: %d", paths, code)
		}
	}
}

// Checks recorded histories of a cluster: does each key behave as one register that many clients share?
//
//	linearizability [-patience 60s] HISTORY...
//
// A history has a line of JSON for each operation, in any order:
//
//	{"client":3,"op":"cas","key":"k0-1","value":"x","token":7,"call":12,"return":19,"outcome":"ok","said":"stored","unique":9}
//
//	op       get, set, cas, incr, delete or append
//	value    what is written, or added
//	token    the unique that a cas names
//	call     nanoseconds of one clock; return too
//	outcome  ok; nothing: an error, and it surely did nothing; unknown: it may happen at any time after its call, or never
//	said     the answer in words: see the table `said`
//	found    the value of a hit, the number of an incr
//	unique   of the item, if it was told; later items of a key have greater ones
//
// Exit code: 0 if all histories are linearizable, 1 if one isn't, 2 if one can't be read or takes too long to check.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	good    = 0
	wrong   = 1
	unclear = 2
)

// A line is an operation as it stands in a history.
type line struct {
	Client  int    `json:"client"`
	Op      string `json:"op"`
	Key     string `json:"key"`
	Value   string `json:"value"`
	Token   int64  `json:"token"`
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
	Outcome string `json:"outcome"`
	Said    string `json:"said"`
	Found   string `json:"found"`
	Unique  int64  `json:"unique"`
}

func (l line) isUnknown() bool {
	return l.Outcome == "unknown"
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout))
}

func run(arguments []string, out io.Writer) int {
	flags := flag.NewFlagSet("linearizability", flag.ContinueOnError)
	patience := flags.Duration("patience", time.Minute, "how long one key may take")
	if flags.Parse(arguments) != nil || flags.NArg() == 0 {
		fmt.Fprintln(out, "usage: linearizability [-patience 60s] HISTORY...")
		return unclear
	}
	worst := good
	for _, path := range flags.Args() {
		verdict := judge(path, *patience, out)
		// A violation is worse than not to know.
		if verdict == wrong || worst == good {
			worst = verdict
		}
	}
	return worst
}

// judge checks one history, and says what it found.
func judge(path string, patience time.Duration, out io.Writer) int {
	lines, err := read(path)
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", path, err)
		return unclear
	}
	keys, unknown, nothing := byKey(lines)
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	sort.Strings(names)
	verdict, longest := good, time.Duration(0)
	for _, name := range names {
		began := time.Now()
		result := check(register{}, keys[name], patience)
		if took := time.Since(began); took > longest {
			longest = took
		}
		switch result {
		case porcupine.Illegal:
			verdict = wrong
			fmt.Fprintf(out, "%s: key %s is not linearizable:\n", path, name)
			show(smallest(keys[name]), out)
		case porcupine.Unknown:
			if verdict == good {
				verdict = unclear
			}
			fmt.Fprintf(out, "%s: key %s takes longer than %v to check\n", path, name, patience)
		}
	}
	if verdict == good {
		fmt.Fprintf(out, "%s: linearizable: %d operations on %d keys, %d of unknown outcome, %d that did nothing; "+
			"the longest check of a key took %v\n",
			path, len(lines), len(keys), unknown, nothing, longest.Round(time.Millisecond))
	}
	return verdict
}

func read(path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []line
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var next line
		if err := json.Unmarshal(scanner.Bytes(), &next); err != nil {
			return nil, fmt.Errorf("line %d: %v", len(lines)+1, err)
		}
		if err := next.check(); err != nil {
			return nil, fmt.Errorf("line %d: %v", len(lines)+1, err)
		}
		lines = append(lines, next)
	}
	if scanner.Err() == nil && len(lines) == 0 {
		return nil, fmt.Errorf("it has no operation")
	}
	return lines, scanner.Err()
}

// said is what each operation may be told.
var said = map[string][]string{
	"get":    {"hit", "miss"},
	"set":    {"stored"},
	"cas":    {"stored", "exists", "not found"},
	"incr":   {"number", "no number", "not found"},
	"delete": {"deleted", "not found"},
	"append": {"stored", "not stored"},
}

// check says what is wrong with a line. A line that means nothing must not count as a good one.
func (l line) check() error {
	answers, isKnown := said[l.Op]
	isAnswer := false
	for _, answer := range answers {
		isAnswer = isAnswer || answer == l.Said
	}
	switch {
	case !isKnown:
		return fmt.Errorf("no operation is called %q", l.Op)
	case l.Key == "":
		return fmt.Errorf("it has no key")
	case l.Outcome == "ok" && !isAnswer:
		return fmt.Errorf("a %s isn't told %q", l.Op, l.Said)
	case l.Outcome == "ok" && l.Return < l.Call:
		return fmt.Errorf("it returns before it is called")
	case l.Outcome == "ok" && l.Said == "hit" && l.Unique <= 0:
		return fmt.Errorf("a hit has a unique")
	case l.Outcome != "ok" && l.Outcome != "nothing" && l.Outcome != "unknown":
		return fmt.Errorf("no outcome is called %q", l.Outcome)
	}
	return nil
}

// byKey sorts out what has a part in the order of each key.
func byKey(lines []line) (keys map[string][]line, unknown, nothing int) {
	keys = make(map[string][]line)
	for _, it := range lines {
		switch {
		case it.Outcome == "nothing":
			nothing++
			continue
		case it.isUnknown():
			unknown++
		}
		// A get whose answer nobody saw says nothing.
		if !it.isUnknown() || it.Op != "get" {
			keys[it.Key] = append(keys[it.Key], it)
		}
	}
	return keys, unknown, nothing
}

// check asks porcupine whether operations on one key have an order that explains them.
func check(first register, lines []line, patience time.Duration) porcupine.CheckResult {
	var last int64
	for _, it := range lines {
		if it.Return > last {
			last = it.Return
		}
		if it.Call > last {
			last = it.Call
		}
	}
	operations := make([]porcupine.Operation, 0, len(lines))
	for _, it := range lines {
		end := it.Return
		if it.isUnknown() {
			end = last + 1
		}
		operations = append(operations, porcupine.Operation{
			ClientId: it.Client,
			Input:    request{op: it.Op, value: it.Value, token: it.Token},
			Call:     it.Call,
			Output:   reply{isUnknown: it.isUnknown(), said: it.Said, found: it.Found, unique: it.Unique},
			Return:   end,
		})
	}
	return porcupine.CheckOperationsTimeout(model(first), operations, patience)
}

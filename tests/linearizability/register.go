package main

import (
	"strconv"

	"github.com/anishathalye/porcupine"
)

// A request is what a client asked of one key.
type request struct {
	op    string
	value string // of set, cas and append; the number to add, of incr
	token int64  // of cas: the unique that it names
}

// A reply is what the client was told, if it was.
type reply struct {
	isUnknown bool
	said      string
	found     string // the value of a hit, the number of an incr
	unique    int64  // of a hit, and of some changes; 0: not told
}

// A register is one key.
type register struct {
	isAny   bool // the history begins in the middle, so anything may be there
	isThere bool
	value   string
	low     int64 // the greatest unique that was told so far: those of later items are greater
	isBound bool  // low is the unique of what is there now
}

// step says whether a register may answer so, and what is there afterwards.
//
// A change with an unknown outcome happens where it is placed, if it can. It may be placed behind all others, and so it
// may also have never happened.
func (r register) step(in request, out reply) (bool, register) {
	if out.isUnknown {
		return true, r.changed(in)
	}
	switch in.op + " " + out.said {
	case "get hit":
		return r.read(out)
	case "get miss", "cas not found", "incr not found", "delete not found", "append not stored":
		return r.isAny || !r.isThere, r.gone()
	case "set stored":
		return r.put(in.value, out.unique)
	case "cas stored":
		if !r.isAny && !r.mayBe(in.token) {
			return false, r
		}
		return r.after(in.token).put(in.value, out.unique)
	case "cas exists":
		return r.isAny || r.isThere && !(r.isBound && r.low == in.token), r
	case "incr number":
		if r.isAny {
			return r.put(out.found, out.unique)
		}
		sum, isNumber := r.plus(in.value)
		if !isNumber || sum != out.found {
			return false, r
		}
		return r.put(sum, out.unique)
	case "incr no number":
		_, isNumber := r.plus(in.value)
		return r.isAny || r.isThere && !isNumber, r
	case "delete deleted":
		return r.isAny || r.isThere, r.gone()
	case "append stored":
		if r.isAny {
			// What it was appended to isn't known.
			isGrowing, after := r.put("", out.unique)
			after.isAny, after.isThere = true, false
			return isGrowing, after
		}
		if !r.isThere {
			return false, r
		}
		return r.put(r.value+in.value, out.unique)
	}
	return false, r
}

// changed is the register after a change whose outcome nobody was told.
func (r register) changed(in request) register {
	switch {
	case in.op == "set":
		_, r = r.put(in.value, 0)
	case in.op == "delete":
		return r.gone()
	case r.isAny || !r.isThere:
		return r
	case in.op == "cas" && r.mayBe(in.token):
		_, r = r.after(in.token).put(in.value, 0)
	case in.op == "append":
		_, r = r.put(r.value+in.value, 0)
	case in.op == "incr":
		if sum, isNumber := r.plus(in.value); isNumber {
			_, r = r.put(sum, 0)
		}
	}
	return r
}

func (r register) read(out reply) (bool, register) {
	if !r.isAny && (!r.isThere || r.value != out.found) {
		return false, r
	}
	if r.isBound && out.unique != r.low || !r.isBound && out.unique <= r.low {
		return false, r
	}
	return true, register{isThere: true, value: out.found, low: out.unique, isBound: true}
}

// put is an item in place of what is there. Its unique is greater than all before.
func (r register) put(value string, unique int64) (bool, register) {
	after := register{isThere: true, value: value, low: r.low}
	if unique == 0 {
		return true, after
	}
	after.low, after.isBound = unique, true
	return unique > r.low, after
}

func (r register) gone() register {
	return register{low: r.low}
}

// mayBe says whether the item's unique may be the token.
func (r register) mayBe(token int64) bool {
	if r.isBound {
		return r.isThere && r.low == token
	}
	return r.isThere && token > r.low
}

func (r register) after(token int64) register {
	if token > r.low {
		r.low = token
	}
	return r
}

func (r register) plus(delta string) (string, bool) {
	number, err := strconv.ParseUint(r.value, 10, 64)
	step, _ := strconv.ParseUint(delta, 10, 64)
	return strconv.FormatUint(number+step, 10), r.isThere && err == nil
}

// model is the register as porcupine asks for it.
func model(first register) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return first },
		Step: func(state, in, out interface{}) (bool, interface{}) {
			return state.(register).step(in.(request), out.(reply))
		},
	}
}

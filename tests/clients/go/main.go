// The usual operations of gomemcache, each with the answer that it must give.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

var passed, failed int

func check(what string, holds bool) {
	if holds {
		passed++
		return
	}
	failed++
	fmt.Println("  gomemcache:", what)
}

func main() {
	client := memcache.New(os.Args[1])
	client.Timeout = 10 * time.Second
	client.MaxIdleConns = 8
	check("ping", client.Ping() == nil)
	check("delete all", client.DeleteAll() == nil || client.FlushAll() == nil)
	storing(client)
	reading(client)
	counting(client)
	large(client)
	atOnce(client)
	fmt.Printf("gomemcache: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func storing(client *memcache.Client) {
	item := &memcache.Item{Key: "g:a", Value: []byte("one"), Flags: 123}
	check("set", client.Set(item) == nil)
	check("add on something", errors.Is(client.Add(item), memcache.ErrNotStored))
	check("replace", client.Replace(&memcache.Item{Key: "g:a", Value: []byte("two"), Flags: 7}) == nil)
	missing := &memcache.Item{Key: "g:none", Value: []byte("x")}
	check("replace of nothing", errors.Is(client.Replace(missing), memcache.ErrNotStored))
	check("append", client.Append(&memcache.Item{Key: "g:a", Value: []byte("+")}) == nil)
	check("prepend", client.Prepend(&memcache.Item{Key: "g:a", Value: []byte("-")}) == nil)
	got, err := client.Get("g:a")
	check("get", err == nil && string(got.Value) == "-two+" && got.Flags == 7)
	check("delete", client.Delete("g:a") == nil)
	check("delete again", errors.Is(client.Delete("g:a"), memcache.ErrCacheMiss))
	_, err = client.Get("g:a")
	check("get of nothing", errors.Is(err, memcache.ErrCacheMiss))
}

func reading(client *memcache.Client) {
	keys := make([]string, 0, 300)
	for n := 0; n < 300; n++ {
		key := "g:m" + strconv.Itoa(n)
		keys = append(keys, key)
		if n%3 != 0 {
			check("set "+key, client.Set(&memcache.Item{Key: key, Value: []byte(key)}) == nil)
		}
	}
	items, err := client.GetMulti(keys)
	check("get multi", err == nil && len(items) == 200)
	for key, item := range items {
		check("value of "+key, string(item.Value) == key)
	}
	item, err := client.Get("g:m1")
	check("get for cas", err == nil)
	item.Value = []byte("swapped")
	check("cas", client.CompareAndSwap(item) == nil)
	check("cas again", errors.Is(client.CompareAndSwap(item), memcache.ErrCASConflict))
	check("touch", client.Touch("g:m1", 100) == nil)
	check("touch of nothing", errors.Is(client.Touch("g:none", 100), memcache.ErrCacheMiss))
}

func counting(client *memcache.Client) {
	check("set number", client.Set(&memcache.Item{Key: "g:n", Value: []byte("42")}) == nil)
	n, err := client.Increment("g:n", 8)
	check("increment", err == nil && n == 50)
	n, err = client.Decrement("g:n", 49)
	check("decrement", err == nil && n == 1)
	_, err = client.Increment("g:none", 1)
	check("increment of nothing", errors.Is(err, memcache.ErrCacheMiss))
	check("set word", client.Set(&memcache.Item{Key: "g:w", Value: []byte("word")}) == nil)
	_, err = client.Increment("g:w", 1)
	check("increment of a word", err != nil)
}

func large(client *memcache.Client) {
	value := bytes.Repeat([]byte("0123456789"), 90_000)
	check("set of 900 kB", client.Set(&memcache.Item{Key: "g:large", Value: value}) == nil)
	got, err := client.Get("g:large")
	check("get of 900 kB", err == nil && bytes.Equal(got.Value, value))
	check("too large", client.Set(&memcache.Item{Key: "g:large", Value: make([]byte, 3<<20)}) != nil)
	_, err = client.Get("g:large")
	check("the old value is gone", errors.Is(err, memcache.ErrCacheMiss))
}

// atOnce has eight goroutines count one number: none may be lost.
func atOnce(client *memcache.Client) {
	check("set", client.Set(&memcache.Item{Key: "g:count", Value: []byte("0")}) == nil)
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; n < 200; n++ {
				client.Increment("g:count", 1)
			}
		}()
	}
	group.Wait()
	got, err := client.Get("g:count")
	check("1600 increments", err == nil && string(got.Value) == "1600")
}

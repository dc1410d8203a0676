// The scenarios in Go, with its standard library; what each operation is, the server's own OpenAPI document says.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
)

type step struct {
	Call        string
	Sleep       float64
	Path        map[string]string
	Query       map[string]string
	Headers     map[string]string
	Body        any
	Status      int
	Is          map[string]any
	Absent      []string
	Save        map[string]string
	SaveHeaders map[string]string `json:"save_headers"`
}

type operation struct{ method, path string }

func main() {
	var document struct {
		Paths map[string]map[string]struct {
			OperationId string
		}
	}
	_, content, _ := send("GET", "/v1/openapi.json", nil, nil)
	check(json.Unmarshal(content, &document), "the document")
	calls := map[string]operation{}
	for path, operations := range document.Paths {
		for method, one := range operations {
			calls[one.OperationId] = operation{strings.ToUpper(method), path}
		}
	}
	text, err := os.ReadFile(os.Args[1])
	check(err, os.Args[1])
	var file struct {
		Scenarios []struct {
			Name  string
			Steps []json.RawMessage
		}
	}
	check(json.Unmarshal(text, &file), os.Args[1])
	for number, scenario := range file.Scenarios {
		known := map[string]string{"topic": fmt.Sprintf("go-%d", number)}
		for place, raw := range scenario.Steps {
			var one step
			check(json.Unmarshal(filled(raw, known), &one), scenario.Name)
			take(calls, one, known, fmt.Sprintf("%s, step %d", scenario.Name, place))
		}
		fmt.Println("ok", scenario.Name)
	}
}

func take(calls map[string]operation, one step, known map[string]string, where string) {
	if one.Sleep > 0 {
		time.Sleep(time.Duration(one.Sleep * float64(time.Second)))
		return
	}
	call, path := calls[one.Call], calls[one.Call].path
	for name, value := range one.Path {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	query := url.Values{}
	for name, value := range one.Query {
		query.Set(name, value)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	status, content, headers := send(call.method, path, one.Headers, one.Body)
	if status != one.Status {
		fail(where, status, string(content))
	}
	var found any
	if len(content) > 0 {
		check(json.Unmarshal(content, &found), where)
	}
	for pointer, wanted := range one.Is {
		if value, there := at(found, pointer); !there || !reflect.DeepEqual(value, wanted) {
			fail(where, pointer, value, wanted)
		}
	}
	for _, pointer := range one.Absent {
		if _, there := at(found, pointer); there {
			fail(where, "there is", pointer)
		}
	}
	for name, pointer := range one.Save {
		value, _ := at(found, pointer)
		known[name] = value.(string)
	}
	for name, header := range one.SaveHeaders {
		known[name] = headers.Get(header)
	}
}

func send(method, path string, headers map[string]string, body any) (int, []byte, http.Header) {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		check(err, path)
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, os.Getenv("PYWHEEL_URL")+path, content)
	check(err, path)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PYWHEEL_TOKEN"))
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	check(err, path)
	defer answer.Body.Close()
	found, err := io.ReadAll(answer.Body)
	check(err, path)
	return answer.StatusCode, found, answer.Header
}

// filled puts what is known into the texts of a step.
func filled(raw []byte, known map[string]string) []byte {
	for name, value := range known {
		encoded, _ := json.Marshal(value)
		raw = bytes.ReplaceAll(raw, []byte("{"+name+"}"), encoded[1:len(encoded)-1])
	}
	return raw
}

func at(value any, pointer string) (any, bool) {
	for _, part := range strings.Split(pointer, "/")[1:] {
		switch inner := value.(type) {
		case map[string]any:
			found, there := inner[part]
			if !there {
				return nil, false
			}
			value = found
		case []any:
			place, err := strconv.Atoi(part)
			if err != nil || place >= len(inner) {
				return nil, false
			}
			value = inner[place]
		default:
			return nil, false
		}
	}
	return value, true
}

func check(err error, where string) {
	if err != nil {
		fail(where, err)
	}
}

func fail(words ...any) {
	fmt.Fprintln(os.Stderr, words...)
	os.Exit(1)
}

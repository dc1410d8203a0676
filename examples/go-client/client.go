// A client of the service. Copy it into your program, with its own deliver:
//
//	call("POST", "/v1/jobs", uuid, map[string]any{"topic": "mail", "body": 5, "delay": "30m"}, &job)
//	log.Fatal(work("mail", deliver))
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

var address, token = "http://127.0.0.1:8080", os.Getenv("PYWHEEL_TOKEN")

// Problem is the error of a refused request.
type Problem struct {
	Status       int
	Type, Detail string
	RetryAfter   time.Duration `json:"-"`
}

func (problem *Problem) Error() string {
	return fmt.Sprintf("%d %s: %s", problem.Status, problem.Type, problem.Detail)
}

type Job struct {
	Id, Topic, Receipt string
	Body               json.RawMessage
	Attempt            int
	LeaseUntil         time.Time `json:"lease_until"`
}

type Claims struct{ Jobs []Job }

var client = &http.Client{Timeout: 40 * time.Second} // a reserve waits for up to 30 s

// call sends a request. key is its Idempotency-Key, or ""; body and answer may be nil.
func call(method, path, key string, body, answer any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, address+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		problem := &Problem{}
		json.NewDecoder(response.Body).Decode(problem) // what a proxy answers may be no JSON
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		problem.Status, problem.RetryAfter = response.StatusCode, time.Duration(seconds)*time.Second
		return problem
	}
	if answer == nil || response.StatusCode == http.StatusNoContent {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// work hands the jobs of a topic to deliver. It returns only if it cannot go on.
func work(topic string, deliver func(json.RawMessage) error) error {
	for {
		var claims Claims
		err := call("POST", "/v1/reserve", "", map[string]any{"topics": []string{topic}, "wait": 30}, &claims)
		if problem := (*Problem)(nil); errors.As(err, &problem) {
			if problem.Status < 500 && problem.Status != 429 {
				return problem
			}
			time.Sleep(problem.RetryAfter)
		}
		if err != nil {
			log.Print(err)
			time.Sleep(time.Second)
		}
		for _, job := range claims.Jobs {
			settle, reason := "/ack", any(nil)
			if err := deliver(job.Body); err != nil {
				settle, reason = "/nack", map[string]any{"error": err.Error()}
			}
			if err := call("POST", "/v1/claims/"+job.Receipt+settle, "", reason, nil); err != nil {
				log.Print(err) // 409 claim-lost: the job is another worker's, drop it
			}
		}
	}
}

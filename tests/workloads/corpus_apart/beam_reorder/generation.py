import torch


@torch.no_grad()
def beam_search(model, input_ids, num_beams, max_new_tokens):
    input_ids = input_ids.expand(num_beams, -1)
    beam_scores = torch.full((num_beams,), -1e9, device=input_ids.device)
    beam_scores[0] = 0
    past = None
    for _ in range(max_new_tokens):
        logits, past = model(input_ids if past is None else input_ids[:, -1:], past)
        scores = logits[:, -1].log_softmax(-1) + beam_scores[:, None]
        vocab_size = scores.shape[-1]
        beam_scores, tokens = scores.flatten().topk(num_beams)
        beam_idx = tokens // vocab_size
        input_ids = torch.cat([input_ids[beam_idx], (tokens % vocab_size)[:, None]], dim=-1)
        past = model.reorder_cache(past, beam_idx)
    best = beam_scores.argmax()
    return input_ids[best], beam_scores[best].item()

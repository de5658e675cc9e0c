# tracker
